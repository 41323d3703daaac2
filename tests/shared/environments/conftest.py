"""What tests of environments share: a folder of wheels in place of any index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import pytest

from tests.support.repositories import write_project
from vlmhyperbench.environments.pinning import PinnedSource, pin_source
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.registry.sources import GitSource, LocalSource, PypiSource
from vlmhyperbench.settings import Settings

Source = GitSource | LocalSource | PypiSource
Pin = Callable[..., Awaitable[PinnedSource]]
BACKENDS = {"theirs": "theirs:Adapter"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, whose wheels are all that uv and pip can install: they use no network and no cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def anyio_backend() -> str:
    """Run tests of coroutines in asyncio."""
    return "asyncio"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package in a folder that is no repository yet."""
    return write_project(tmp_path / "project", {"theirs": "VERSION = 1\n"}, backends=BACKENDS)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A workshop in a home of its own."""
    (tmp_path / "secrets").mkdir()
    return Workshop.of(Settings(home=tmp_path))


@pytest.fixture
def pin(workshop: Workshop, tmp_path: Path) -> Pin:
    """A function that pins a source."""

    async def pin(source: Source, name: str = "my-bench", extras: Collection[str] = ()) -> PinnedSource:
        async def tell(step: str, packages: object) -> None:
            """Tell nobody."""

        return await pin_source(name, source, tmp_path, workshop, tell=tell, extras=extras)

    return pin
