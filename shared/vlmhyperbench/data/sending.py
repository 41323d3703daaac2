"""Bring the files of a model to the rented machine of its engine: from where they come from, else from this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vlmhyperbench.data.fetching import SourceOf, sources_of
from vlmhyperbench.data.weights import hashes_by_path
from vlmhyperbench.domain.cached_files import MADE, parse_cached_location
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.environments.rented_files import Sent, send_files, tell_no_bytes
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench.settings import Settings

_LOG = get_logger(__name__)


async def send_model(
    rented: Path | None,
    files: Collection[ModelFile],
    paths: Mapping[str, str],
    settings: Settings,
    *,
    sent: Sent = tell_no_bytes,
) -> None:
    """Bring the files of a model to the engine's machine, if that is rented, before the engine is loaded.

    Args:
        rented: The record of the machine; None: the engine runs here.
        files: The pinned files.
        paths: Role → path, as the engine is given them; their hashes were compared here.
        settings: The secrets of this machine, none of which reaches the other one.
        sent: Is told of the bytes that have arrived.

    Raises:
        Unavailable: they do not arrive.
    """
    if rented is not None:
        urls = await asyncio.to_thread(urls_by_path, files, paths, sources_of(settings))
        await send_files(rented, known=hashes_by_path(files, paths), urls=urls, sent=sent)


@contextmanager
def _logged(repo: str) -> Iterator[None]:
    """Log why the rest of a repository has no URLs: its files are sent from here."""
    try:
        yield
    except VlmHyperBenchError as error:
        _LOG.info("no_signed_url", repo=repo, code=error.code)


def urls_by_path(files: Collection[ModelFile], paths: Mapping[str, str], source_of: SourceOf) -> dict[str, str]:
    """Return path → URL from which anybody may download a file for some hours, of those that a hub or S3 gives one."""
    cached = {paths[file.role]: parse_cached_location(file.location) for file in files}
    urls: dict[str, str] = {}
    for repo in sorted({file.repo for file in cached.values() if file is not None and file.repo != MADE}):
        mine = {path: file for path, file in cached.items() if file is not None and file.repo == repo}
        with _logged(repo):
            source = source_of(repo)
            urls.update((path, source.signed_url(file)) for path, file in mine.items())
    return {path: url for path, url in urls.items() if url.startswith(("https://", "http://"))}
