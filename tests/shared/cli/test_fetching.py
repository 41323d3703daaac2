"""What `models fetch` writes on stderr: a bar of bytes on a terminal, one line in a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import LoopbackHub, serve_hub
from tests.support.terminals import stderr_of
from vlmhyperbench_tiny_doc_vlm import names, path

FILES = {name: path(name, "0.2").read_bytes() for name in names("0.2") if not name.endswith(".gguf")}
FETCH = ("models", "fetch", "hf:org/tiny", "--backend", "transformers")
MEGABYTES = f"{sum(map(len, FILES.values())) / 1e6:.1f}"
ERASE = "\x1b[2K"


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with serve_hub() as served:
        served.hold("org/tiny", FILES)
        yield served


def variables(home: Path, hub: LoopbackHub) -> dict[str, str]:
    """Return the environment of a command with a wide terminal and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLMHB_", "HF_"))}
    own = {"VLMHB_HOME": str(home), "HF_HOME": str(home / "hf"), "HF_ENDPOINT": hub.url}
    return {**kept, **own, "TERM": "xterm", "COLUMNS": "200"}


def test_a_terminal_has_a_bar_of_bytes_that_is_gone_at_the_end(hub: LoopbackHub, tmp_path: Path) -> None:
    title = f"org/tiny at {hub.repositories['org/tiny'].commit[:8]}"
    first = stderr_of(*FETCH, on_terminal=True, env=variables(tmp_path, hub))
    assert f"Fetching {title}: {len(FILES)} files" in first
    drawn, _, left = first.rpartition(f"{MEGABYTES}/{MEGABYTES} MB")
    assert title in drawn.splitlines()[-1], "the bar names what is fetched"
    assert ERASE in left
    assert "MB" not in left.rpartition(ERASE)[2]
    again = stderr_of(*FETCH, on_terminal=True, env=variables(tmp_path, hub))
    assert again.count(title) == 1, "nothing is fetched, so there is no bar"


def test_a_pipe_gets_one_line_and_with_quiet_none(hub: LoopbackHub, tmp_path: Path) -> None:
    piped = stderr_of(*FETCH, env=variables(tmp_path / "piped", hub))
    quiet = stderr_of(*FETCH, "--quiet", env=variables(tmp_path / "quiet", hub))
    [line] = piped.splitlines()
    assert line.startswith(f"Fetching org/tiny at {hub.repositories['org/tiny'].commit[:8]}: {len(FILES)} files, ")
    assert "\x1b" not in line
    assert quiet == ""
