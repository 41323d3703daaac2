"""The Hugging Face hub: list the files of a repository at a commit, download one; its errors become ours.

What a source of models has to offer (`Source`) stands here too; `buckets` is the other one.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from vlmhyperbench.data.licences import licence_of_card
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.errors import Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.extras import needed_for
from vlmhyperbench.secret_files import read_secret

TOKEN: Final = "HF_TOKEN"  # noqa: S105 - the name of a secret
DATASETS: Final = "datasets/"
"""Beginning of the name of a repository that holds a dataset, as in its address; without it, it holds a model."""
_TRUE: Final = frozenset({"1", "ON", "YES", "TRUE"})
_INCONSISTENT: Final = "Consistency check failed"
"""What huggingface_hub says of a download whose length is not the listed one."""
_OF_THE_CONNECTION: Final = frozenset({errno.EIO, errno.ECONNRESET, errno.EPIPE})

OnBytes = Callable[[int], object]
"""Called with the number of bytes that have arrived since the last call, from several threads."""


@dataclass
class Arrival:
    """Bytes of a fetch, counted by several threads."""

    total: int = 0
    """Bytes of all files that are fetched."""
    done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def expect(self, count: int) -> None:
        """Add bytes that will be fetched."""
        with self._lock:
            self.total += count

    def add(self, count: int) -> None:
        """Count bytes that have arrived."""
        with self._lock:
            self.done += count

    def announce(self, text: str) -> None:
        """Hear what will be fetched; who shows it overrides this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFile:
    """A file as the hub lists it."""

    name: str
    size_bytes: int
    sha256: str | None
    """Known for large files of a hub; None for a small one, for which the hub states `blob_id`. Of an object in S3 it
    is known if the prefix states it."""
    blob_id: str | None
    """Hash of the file as git computes it; None in S3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository at a commit, or a prefix in S3 as it was listed."""

    repo: str
    """`ORG/NAME`, `datasets/ORG/NAME`, or `s3://BUCKET/PREFIX`."""
    revision: str
    """What was asked for: a branch, a tag or a commit."""
    commit: str
    """The version, 40 digits; in S3 a hash of the listing."""
    license: str | None
    files: tuple[RepositoryFile, ...]

    @property
    def names(self) -> list[str]:
        """Names of its files."""
        return [file.name for file in self.files]


class Source(Protocol):
    """Where models are fetched from. Calls block."""

    def look_up(self, repo: str, revision: str) -> Repository:
        """List the files of a repository."""

    def download(self, repository: Repository, name: str, folder: Path, on_bytes: OnBytes) -> None:
        """Download one file into a folder; an interrupted download continues where it ended."""

    def signed_url(self, file: CachedFile) -> str:
        """Return a URL from which anybody may download a file for a while; it holds no credentials of this machine."""


class Hub:
    """A hub that speaks the API of huggingface.co. Calls block."""

    def __init__(self, *, endpoint: str | None = None, token: str | None = None, is_offline: bool = False) -> None:
        """Name the hub.

        Args:
            endpoint: Its URL; by default that of `HF_ENDPOINT`, else https://huggingface.co.
            token: Access token; by default the one that huggingface_hub finds itself.
            is_offline: Whether nothing may be fetched.
        """
        self._endpoint = endpoint
        self._token = token
        self._is_offline = is_offline

    @classmethod
    def of(cls, secrets_dir: Path, *, is_offline: bool = False) -> Hub:
        """Return the hub that this machine uses, with the secret HF_TOKEN if one is stored.

        Raises:
            InvalidInput: other users may read the secret.
        """
        try:
            token: str | None = read_secret(secrets_dir, TOKEN)
        except NotFound:
            token = None
        offline = is_offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE
        return cls(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token, is_offline=offline)

    def look_up(self, repo: str, revision: str) -> Repository:
        """List a repository's files at a revision.

        Raises:
            NotFound: there is no such repository or revision.
            Denied: the hub refuses the token, or wants one.
            Unavailable: the hub does not answer, is not allowed (`HF_HUB_OFFLINE`), or huggingface_hub is missing.
        """
        with self._errors_of(repo, revision):
            name, kind = _named(repo)
            info = self._api().repo_info(name, repo_type=kind, revision=revision, files_metadata=True)
        files = tuple(
            RepositoryFile(
                name=file.rfilename,
                size_bytes=file.size or 0,
                sha256=file.lfs.sha256 if file.lfs is not None else None,
                blob_id=file.blob_id,
            )
            for file in info.siblings or ()
        )
        card = info.card_data
        licence = licence_of_card(card.to_dict()) if card is not None else None
        return Repository(repo=repo, revision=revision, commit=info.sha, license=licence, files=files)

    def download(self, repository: Repository, name: str, folder: Path, on_bytes: OnBytes) -> None:
        """Download one file into a folder; an interrupted download continues where it ended.

        Raises:
            NotFound: the repository, the commit or the file is gone.
            Denied: the licence has to be accepted first, or the hub refuses the token.
            Unavailable: the hub does not answer, or the connection was cut several times.
            OSError: the file cannot be written.
        """
        with self._errors_of(repository.repo, repository.commit):
            repo, kind = _named(repository.repo)
            self._api().hf_hub_download(
                repo,
                name,
                repo_type=kind,
                revision=repository.commit,
                local_dir=folder,
                tqdm_class=_reporter(on_bytes),
            )

    def signed_url(self, file: CachedFile) -> str:
        """Return the signed URL to which the hub redirects this machine; of a file that it sends itself, its plain one.

        Raises:
            VlmHyperBenchError: see `download`.
        """
        with self._errors_of(file.repo, file.commit):
            from huggingface_hub import hf_hub_url

            name, kind = _named(file.repo)
            url = hf_hub_url(name, file.name, repo_type=kind, revision=file.commit, endpoint=self._endpoint)
            return str(self._api().get_hf_file_metadata(url=url, token=self._token).location)

    def _api(self) -> Any:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read once, when huggingface_hub is imported
        with needed_for("fetching models", extra="hub"):
            from huggingface_hub import HfApi
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its warnings show signed URLs
        warnings.filterwarnings("ignore", module="huggingface_hub")  # a full disk is said by an error of ours
        return HfApi(endpoint=self._endpoint, token=self._token, library_name="vlmhyperbench")

    @contextmanager
    def _errors_of(self, repo: str, revision: str) -> Iterator[None]:
        """Turn the errors of huggingface_hub into ours; none of the messages holds a URL, which may be signed."""
        if self._is_offline:
            raise offline(repo)
        with needed_for("fetching models", extra="hub"):
            import httpx2
            from huggingface_hub import errors
        try:
            yield
        except errors.HFValidationError as error:
            cure = "Write ORG/NAME, as the hub's page of the model shows it."
            raise InvalidInput(f"{repo!r} is no name of a repository.", cure=cure, code="usage") from error
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, httpx2.HTTPError) as error:
            # huggingface_hub wraps the refusal of a file's metadata in LocalEntryNotFoundError.
            wrapped = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else error
            raise self._as_ours(wrapped, repo, revision) from error
        except OSError as error:
            if error.errno is not None and error.errno not in _OF_THE_CONNECTION:
                raise  # a full disk or a missing permission: the machine's error, not the hub's
            raise (_other_length(repo) if _INCONSISTENT in str(error) else self._unreachable(repo)) from error

    def _as_ours(self, error: BaseException | None, repo: str, revision: str) -> VlmHyperBenchError:
        from huggingface_hub import errors

        if isinstance(error, errors.GatedRepoError):
            return self._denied(repo, _status(error), needs_licence=True)
        if isinstance(error, errors.RevisionNotFoundError):
            cure = "Correct it: a branch, a tag or the full hash of a commit."
            return NotFound(f"{repo} has no revision {revision!r}.", cure=cure, code="hub_no_revision")
        if isinstance(error, errors.RemoteEntryNotFoundError):
            message = f"A file of {repo} at {revision} does not exist any more."
            return NotFound(message, cure="Fetch another revision.", code="hub_no_file")
        if isinstance(error, errors.HfHubHTTPError):
            return self._http_error(repo, _status(error))
        return self._unreachable(repo)

    def _http_error(self, repo: str, status: int | None) -> Denied | NotFound | Unavailable:
        if status in {401, 403}:
            return self._denied(repo, status, needs_licence=False)
        if status == 404:
            cure = "Correct the name; a private repository needs a token of an account that may read it."
            return NotFound(f"The hub has no repository {repo}.", cure=cure, code="hub_no_repository")
        message = f"The hub answers HTTP {status} to a request for {repo}."
        return Unavailable(message, cure="Try again later; what has arrived is kept.", code="hub_unreachable")

    def _denied(self, repo: str, status: int | None, *, needs_licence: bool) -> Denied:
        used = f"with {self._used_token()}" if self._used_token() else "without a token"
        page = f"{self._endpoint or 'https://huggingface.co'}/{repo}"
        accept = f"Accept its licence at {page}, then store" if needs_licence else "Store"
        reason = "its licence has to be accepted by the token's account" if needs_licence else "it is private or absent"
        return Denied(
            f"The hub refuses {repo} (HTTP {status}), asked {used}: {reason}.",
            cure=f"{accept} a token of an account that may read it: `vlmhyperbench secret set {TOKEN}`, on the machine "
            "that fetches.",
            code="hub_denied",
        )

    def _used_token(self) -> str | None:
        if self._token is not None:
            return f"the secret {TOKEN}"
        from huggingface_hub import get_token

        return f"the token of the variable {TOKEN} or of `hf auth login`" if get_token() else None

    def _unreachable(self, repo: str) -> Unavailable:
        return Unavailable(
            f"The hub at {self._endpoint or 'https://huggingface.co'} does not answer a request for {repo}.",
            cure="Check the network, HF_ENDPOINT and the proxy, and repeat the command: what has arrived is kept.",
            code="hub_unreachable",
        )


def offline(repo: str) -> Unavailable:
    """Return the error of a model that is not fetched, where nothing may be fetched."""
    return Unavailable(
        f"{repo} is not fetched, and VLMHB_OFFLINE or HF_HUB_OFFLINE forbids it.",
        cure="Unset the variable, or use a model that `vlmhyperbench models list` shows as fetched.",
        code="hub_offline",
    )


def _other_length(repo: str) -> Unavailable:
    return Unavailable(
        f"The hub sends a file of {repo} that is longer or shorter than it lists.",
        cure="Repeat the command. If it stays so, a proxy or a mirror sends something else, or the file was replaced.",
        code="hub_unreachable",
    )


def _named(repo: str) -> tuple[str, str]:
    """Return the name of a repository of the hub, and what it holds."""
    return repo.removeprefix(DATASETS), "dataset" if repo.startswith(DATASETS) else "model"


def _status(error: Any) -> int | None:
    response = getattr(error, "response", None)
    return response.status_code if response is not None else None


def _reporter(on_bytes: OnBytes) -> type[Any]:
    """Return a progress bar that draws nothing and reports the bytes that arrive."""
    from tqdm import tqdm

    class Reporter(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "disable": True})
            on_bytes(int(options.get("initial") or 0))  # what an interrupted download left

        def update(self, n: float | None = 1) -> bool | None:
            on_bytes(int(n or 0))
            return None

    return Reporter
