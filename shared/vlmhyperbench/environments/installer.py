"""Run an installer as a child that dies with this process, keep its output in a log, and say why it failed."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vlmhyperbench.environments.base import full_disk
from vlmhyperbench.environments.injection import INSTALLER_VARIABLES
from vlmhyperbench.errors import InvalidInput, Unavailable, VlmHyperBenchError
from vlmhyperbench.logs import SecretMasker
from vlmhyperbench.processes import start_child

TIMEOUT_S = 3600.0
"""Maximum duration of one step."""
_TAIL_LINES = 15
_MAX_LINE = 400
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded|os error 28\b", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"error sending request|connection (refused|reset|error)|dns error|timed out|status server error"
    r"|network is unreachable|max retries exceeded|newconnectionerror|temporary failure in name resolution",
    re.IGNORECASE,
)
_PASSWORDS = re.compile(r"PASSWORD|TOKEN|_KEY$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of an installer."""

    argv: Sequence[str]
    log: Path
    cwd: Path
    what: str
    """What fails if it fails: the beginning of the error's message."""
    code: str
    cure: str
    program: str = "installer"
    inherited: Sequence[str] = INSTALLER_VARIABLES
    """Patterns of the variables of this process that it inherits."""
    timeout_s: float = TIMEOUT_S


async def run_step(step: Step) -> str:
    """Run an installer to its end and return its output; if the caller is cancelled, it is killed with its children.

    Raises:
        InvalidInput: it failed because of what it was asked to install; repeating it cannot help.
        Unavailable: the disk is full, an index cannot be reached, or it takes too long.
    """
    variables = variables_like(step.inherited)
    try:
        code, output = await run_logged(
            step.argv,
            log=step.log,
            cwd=step.cwd,
            variables=variables | {"PYTHONUNBUFFERED": "1"},
            secrets=_secrets(variables),
            timeout_s=step.timeout_s,
        )
    except TimeoutError as error:
        message = f"{step.what}: the {step.program} did not end within {step.timeout_s:g} s."
        raise Unavailable(message, cure=f"Read {step.log}.", code="environment_timeout") from error
    if code != 0:
        raise _failure(step, output)
    return "\n".join(output)


def variables_like(patterns: Sequence[str]) -> dict[str, str]:
    """Return the variables of this process whose names match one of the patterns."""
    return {
        name: value for name, value in os.environ.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


async def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    variables: Mapping[str, str],
    secrets: Iterable[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> tuple[int, list[str]]:
    """Run a program with these variables only; append its output to a log, and return exit code and lines, masked.

    Raises:
        TimeoutError: it takes longer than `timeout_s`.
    """
    masker = SecretMasker(secrets)
    output: list[str] = []
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        async with (
            asyncio.timeout(timeout_s),
            await start_child(
                argv,
                env=variables,
                inherited=(),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.STDOUT,
            ) as child,
        ):
            while line := await child.stdout.readline():
                text = masker.mask(line.decode("utf-8", "replace").rstrip())
                output.append(text)
                file.write(text + "\n")
            return await child.wait(), output


def last_lines(output: Sequence[str]) -> str:
    """Return the end of a program's output, as a message shows it."""
    return "\n".join(line[:_MAX_LINE] for line in deque((line for line in output if line), maxlen=_TAIL_LINES))


def _failure(step: Step, output: Sequence[str]) -> VlmHyperBenchError:
    text = "\n".join(output)
    if _NO_SPACE.search(text):
        return full_disk(step.cwd)
    tail = last_lines(output)
    if _UNREACHABLE.search(text):
        message = (
            f"{step.what}, because an index of packages does not answer. The end of the installer's log:\n{tail}\n"
        )
        cure = "Check the network, and the index that uv's configuration or UV_DEFAULT_INDEX names."
        return Unavailable(message, cure=cure, code="index_unreachable")
    return InvalidInput(f"{step.what}. The end of the {step.program}'s log:\n{tail}\n", cure=step.cure, code=step.code)


def _secrets(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield what installers may print and nobody may read: passwords of indexes, alone or in URLs."""
    for name, value in variables.items():
        if _PASSWORDS.search(name):
            yield value
        for word in value.split():
            password = _password_in(word)
            if password:
                yield password
                yield unquote(password)


def _password_in(word: str) -> str | None:
    try:
        return urlsplit(word).password
    except ValueError:
        return None
