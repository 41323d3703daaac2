"""The picture of the architecture shows what is: every room, service and plugin, and nothing that is not there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.architecture.picture import PICTURE, ROOT, drawn, layers, members


def _texts(svg: str) -> set[str]:
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", svg))


def test_the_picture_is_the_one_that_the_tree_draws() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(), "Run: make docs"


def test_every_room_service_and_plugin_stands_in_the_picture() -> None:
    rooms = {room for layer in layers() for room in layer}
    tree = {path.stem for path in (ROOT / "shared" / "vlmhyperbench").glob("*") if _is_room(path)}
    assert tree == rooms
    assert rooms | {*members("services"), *members("shared/plugins")} <= _texts(PICTURE.read_text(encoding="utf-8"))


def test_a_new_room_and_a_new_plugin_change_the_picture(tmp_path: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(text.replace('"domain",', '"domain | new_room",'), encoding="utf-8")
    (tmp_path / "services").mkdir()
    (tmp_path / "shared/plugins/new_plugin").mkdir(parents=True)
    shutil.copy(ROOT / "shared/plugins/openai/pyproject.toml", tmp_path / "shared/plugins/new_plugin")
    assert {"new_room", "new_plugin"} <= _texts(drawn(tmp_path))


def test_what_does_not_exist_yet_is_not_in_the_picture() -> None:
    assert not re.search(r"S3|dashboard", PICTURE.read_text(encoding="utf-8"))


def _is_room(path: Path) -> bool:
    if path.name.startswith("_") or path.name == "py.typed":
        return False
    return path.suffix == ".py" or any(path.glob("*.py"))
