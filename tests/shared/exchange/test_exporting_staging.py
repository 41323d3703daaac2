"""An export is there whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.exchange.staging import staged


def _write(out: Path, *, fails: type[BaseException] | None = None) -> None:
    with staged(out) as staging:
        staging.scratch(out).write_text("half")
        staging.file(out / "a" / "one").write_text("new")
        staging.file(out / "two").write_text("new")
        if fails is not None:
            raise fails


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_all_files_are_there_at_the_end_and_nothing_else(tmp_path: Path) -> None:
    _write(tmp_path / "out")
    assert _files(tmp_path) == ["out", "out/a", "out/a/one", "out/two"]


@pytest.mark.parametrize("fails", [KeyboardInterrupt, ValueError])
def test_an_error_or_ctrl_c_leaves_nothing_behind(tmp_path: Path, fails: type[BaseException]) -> None:
    with pytest.raises(fails):
        _write(tmp_path / "deep" / "out", fails=fails)
    assert _files(tmp_path) == []


def test_an_older_export_stays_as_it_was_when_the_new_one_fails(tmp_path: Path) -> None:
    (tmp_path / "two").write_text("old")
    with pytest.raises(ValueError):
        _write(tmp_path, fails=ValueError)
    assert _files(tmp_path) == ["two"]
    assert (tmp_path / "two").read_text() == "old"


def test_a_new_export_replaces_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "two").write_text("old")
    _write(tmp_path)
    assert (tmp_path / "two").read_text() == "new"


def test_what_cannot_be_written_is_named(tmp_path: Path, wording: Wording) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(Unavailable) as refused:
        _write(file)
    wording(refused.value)
