"""Read git repositories: the commit behind a branch or a tag, and the files of a commit. Git never asks anybody.

A token reaches git as a variable of its process, through a credential helper that answers for the repository's host
only. It is in no argument, no URL and no file.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from vlmhyperbench.domain.packages import COMMIT
from vlmhyperbench.environments.programs import last_lines, run_logged, variables_like
from vlmhyperbench.errors import Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError

_VARIABLES: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_*", "NETRC", "SSH_AUTH_SOCK", "GIT_SSL_*", "GIT_CONFIG_GLOBAL"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
)
_NEVER_ASK: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
_TOKEN: Final = "VLMHB_GIT_TOKEN"  # noqa: S105 - the name of a variable
_HELPER: Final = f'!f() {{ test "$1" = get && echo username=x-access-token && echo "password=${_TOKEN}"; }}; f'

_LISTED: Final = re.compile(r"([0-9a-f]{40,64})\t(\S+)")
_DENIED: Final = re.compile(
    r"could not read (Username|Password)|Authentication failed|terminal prompts disabled|Permission denied"
    r"|Repository not found|HTTP Basic: Access denied|error: 40[13]\b|Host key verification failed"
)
_UNREACHABLE: Final = re.compile(
    r"Could not resolve host|Connection (refused|reset|timed out)|Failed to connect|timed out|Network is unreachable"
    r"|error: 5\d\d\b|early EOF|the remote end hung up|transfer closed|unexpected disconnect|RPC failed"
    r"|non-properly terminated|unexpected eof|curl_result = (18|56)"
)
_MISSING: Final = re.compile(r"does not appear to be a git repository|does not exist|repository '.*' not found")


class Repository:
    """A git repository at a URL that was checked by `registry.sources`."""

    def __init__(self, url: str, log: Path, *, token: str | None = None) -> None:
        """Name a repository.

        Args:
            url: Its address.
            log: File to which git's output is appended.
            token: What a server takes as a password; None where git's own configuration suffices.
        """
        self.url = url
        self._log = log
        self._token = token

    async def commit_of(self, ref: str) -> str:
        """Return the commit behind a tag or a branch, a tag first, as git itself decides; a commit is itself.

        Raises:
            NotFound: there is no such ref or repository, or git is not installed.
            Denied: the server wants credentials, or refuses those that it was given.
            Unavailable: the server does not answer.
        """
        if re.match(COMMIT, ref):
            return ref
        output = await self._git("ls-remote", "--", self.url, ref, f"{ref}^{{}}")
        listed = {name: commit for commit, name in map(_parts, output) if name}
        for name in (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}", ref):
            if name in listed:
                return listed[name]
        cure = f"Write a tag, a branch or a whole commit; `git ls-remote {self.url}` lists tags and branches."
        raise NotFound(f"There is no ref {ref!r} in {self.url}.", cure=cure, code="no_ref")

    async def check_out(self, commit: str, folder: Path) -> None:
        """Write the files of a commit into a new folder, with the repository's history, which some builds read.

        Raises:
            NotFound: there is no such commit or repository, or git is not installed.
            Denied: the server wants credentials, or refuses those that it was given.
            Unavailable: the server does not answer.
        """
        await self._git("clone", "--quiet", "--no-checkout", "--filter=blob:none", "--", self.url, str(folder))
        try:
            await self._git("-C", str(folder), "cat-file", "-e", f"{commit}^{{commit}}")
        except InvalidInput:  # no branch and no tag leads to it: the server may give it nevertheless
            try:
                await self._git("-C", str(folder), "fetch", "--quiet", "origin", commit)
            except InvalidInput as error:
                cure = "Write a commit that the repository still has."
                raise NotFound(f"There is no commit {commit} in {self.url}.", cure=cure, code="no_ref") from error
        await self._git("-C", str(folder), "checkout", "--quiet", "--detach", commit)

    async def _git(self, *arguments: str) -> list[str]:
        program = shutil.which("git")
        if program is None:
            cure = "Install git, for example with `apt-get install git`, or name a wheel instead of a repository."
            raise NotFound("git is not installed on this machine.", cure=cure, code="not_installed")
        safe = ("-c", "protocol.ext.allow=never", "-c", "init.templateDir=", "-c", "advice.detachedHead=false")
        secrets = [self._token, quote(self._token, safe="")] if self._token is not None else []
        try:
            code, output = await run_logged(
                [program, *safe, *arguments],
                log=self._log,
                cwd=self._log.parent,
                variables={**variables_like(_VARIABLES), **_NEVER_ASK, **self._credentials()},
                secrets=secrets,
            )
        except TimeoutError as error:
            raise Unavailable(
                f"git did not end for {self.url}.", cure=f"Read {self._log}.", code="git_timeout"
            ) from error
        if code != 0:
            raise self._failure(output)
        return output

    def _credentials(self) -> Mapping[str, str]:
        """Return the variables by which git gets the token, for the repository's host and nothing else."""
        address = urlsplit(self.url)
        if self._token is None or address.scheme != "https":
            return {}
        key = f"credential.{address.scheme}://{address.netloc}.helper"
        settings = [(key, ""), (key, _HELPER)]  # the empty one removes the helpers of the user's own configuration
        numbered = [
            pair
            for no, (name, value) in enumerate(settings)
            for pair in ((f"GIT_CONFIG_KEY_{no}", name), (f"GIT_CONFIG_VALUE_{no}", value))
        ]
        return {"GIT_CONFIG_COUNT": str(len(settings)), **dict(numbered), _TOKEN: self._token}

    def _failure(self, output: Sequence[str]) -> VlmHyperBenchError:
        text, tail = "\n".join(output), last_lines(output)
        if _DENIED.search(text):
            cure = (
                "For a private repository store a token, `vlmhyperbench secret set NAME`, and name it: "
                "`vlmhyperbench registry add package … --token NAME`. For ssh, give the key to the ssh agent."
            )
            message = f"The server of {self.url} gives no access: {_line_with(_DENIED, output)}."
            return Denied(message, cure=cure, code="git_denied")
        if _MISSING.search(text):
            message = f"There is no git repository at {self.url}: {_line_with(_MISSING, output)}."
            return NotFound(message, cure="Correct the address.", code="no_repository")
        if _UNREACHABLE.search(text):
            message = f"The server of {self.url} does not answer. The end of git's log:\n{tail}\n"
            return Unavailable(message, cure="Check the network and the address.", code="git_unreachable")
        message = f"git fails for {self.url}. The end of its log:\n{tail}\n"
        return InvalidInput(message, cure="Correct the address or the commit.", code="git_failed")


def extract_revision(folder: Path, revision: str, into: Path) -> None:
    """Write a folder of a repository on this machine as it was at a revision.

    Raises:
        Unavailable: git is not installed.
        InvalidInput: there is no such revision, or the folder is in no repository.
    """
    argv = ["git", "-C", str(folder), "archive", "--format=tar", "--end-of-options", revision]
    try:
        done = subprocess.run(argv, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise Unavailable("git is not installed.", cure="Install it, or compare two folders.") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip()
        message = f"git cannot read the revision {revision!r} of {folder}: {reason}."
        raise InvalidInput(message, cure="Name a revision of the repository that holds this folder.", code="revision")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(into, filter="data")


def _line_with(pattern: re.Pattern[str], output: Sequence[str]) -> str:
    """Return the first line that says what is wrong, as the end of a sentence."""
    line = next((line for line in output if pattern.search(line)), "")
    return line.removeprefix("fatal: ").rstrip(". ")


def _parts(line: str) -> tuple[str, str]:
    """Return commit and name of a line of `git ls-remote`; both empty for another line, such as a warning."""
    found = _LISTED.fullmatch(line)
    return (found[1], found[2]) if found is not None else ("", "")
