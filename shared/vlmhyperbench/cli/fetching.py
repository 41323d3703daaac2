"""Fetch models from a hub or S3 into this machine's cache for commands, with a progress bar on stderr."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.data import fetching
from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival, Repository, RepositoryFile
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.settings import Settings


def open_cache() -> ModelCache:
    """Return the cache of models of this machine."""
    return fetching.open_cache(Settings.load())


def look_up(repo: str, revision: str, file: str | None = None) -> Repository:
    """List the files of a repository; while the hub may not be asked or does not answer, those that are fetched.

    Args:
        repo: `ORG/NAME`, or `s3://BUCKET/PREFIX`.
        revision: Branch, tag or commit.
        file: A file that must be among them.

    Raises:
        VlmHyperBenchError: see `Source.look_up`; only where nothing is fetched.
    """
    try:
        return fetching.sources_of(Settings.load())(repo).look_up(repo, revision)
    except Unavailable:
        cached = open_cache().get(repo, revision)
        if cached is None or (file is not None and file not in cached.sizes):
            raise
        return _as_listed(cached)


def fetch(repository: Repository, names: Collection[str], output: OutputFlags) -> Fetched:
    """Fetch and verify files of a repository, unless they are in the cache and whole.

    Raises:
        VlmHyperBenchError: see `ModelCache.fetch`.
    """
    sizes = {file.name: file.size_bytes for file in repository.files}
    total = sum(sizes.get(name, 0) for name in names)
    title = f"{repository.repo} at {repository.commit[:8]}"
    licence = f", licence {repository.license}" if repository.license else ""
    note(f"Fetching {title}: {len(names)} files, {total / 2**30:.2f} GiB{licence} …", output)
    with showing_bytes(title, output) as arrival:
        source = fetching.sources_of(Settings.load())(repository.repo)
        return open_cache().fetch(source, repository, names, arrival)


@contextmanager
def showing_bytes(title: str, output: OutputFlags) -> Iterator[Arrival]:
    """Yield a counter of bytes that draws a bar on stderr, if that is a terminal, once bytes are expected."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    is_drawn = output.progress and console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not is_drawn, transient=True) as bars:
        yield _Bar(bars, title, output)


class _Bar(Arrival):
    """Bytes of a fetch that move a bar; files that are here already do not count."""

    def __init__(self, bars: Progress, title: str, output: OutputFlags) -> None:
        super().__init__()
        self._bars, self._task = bars, bars.add_task(title, total=None, visible=False)
        self._output = output

    def expect(self, count: int) -> None:
        """Show how many bytes will be fetched, unless there are none."""
        super().expect(count)
        self._bars.update(self._task, total=self.total, visible=self.total > 0)

    def add(self, count: int) -> None:
        """Move the bar."""
        super().add(count)
        self._bars.update(self._task, completed=self.done)

    def announce(self, text: str) -> None:
        """Say what will be fetched, before it is."""
        note(text, self._output)


def _as_listed(cached: Fetched) -> Repository:
    files = tuple(
        RepositoryFile(name=name, size_bytes=size, sha256=cached.sha256[name], blob_id=None)
        for name, size in cached.sizes.items()
    )
    return Repository(
        repo=cached.repo, revision=cached.revision, commit=cached.commit, license=cached.license, files=files
    )
