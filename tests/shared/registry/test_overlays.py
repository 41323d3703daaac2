"""Overlays: what they replace, what they merge, and where a value comes from afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import errors_of, load
from tests.support.wording import Wording

OVER = "models/m.dev.yaml"


def test_an_overlay_counts_in_dev_only(tmp_path: Path) -> None:
    files = {OVER: "license: MIT\n"}
    assert load(tmp_path, files).models["m"].license == "Apache-2.0"
    assert load(tmp_path, files, "dev").models["m"].license == "MIT"


def test_top_level_keys_are_replaced_whole_unless_asked_otherwise(tmp_path: Path) -> None:
    replaced = load(tmp_path, {OVER: "engine_params: {threads: 8}\n"}, "dev").models["m"]
    assert replaced.engine_params == {"threads": 8}
    merged = load(tmp_path, {OVER: "$merge: deep\nengine_params: {threads: 8}\n"}, "dev").models["m"]
    assert merged.engine_params == {"n_ctx": 512, "threads": 8}


def test_a_source_is_always_replaced_whole(tmp_path: Path) -> None:
    files = {
        "packages/a.yaml": "source: {type: pypi, name: a, version: 1.0.0}\n",
        "packages/a.dev.yaml": "$merge: deep\nsource: {type: local, path: ../a}\n",
    }
    assert load(tmp_path, files, "dev").packages["a"].source.type == "local"
    assert load(tmp_path, files).packages["a"].source.type == "pypi"


def test_every_value_knows_which_file_it_comes_from(tmp_path: Path) -> None:
    catalogue = load(tmp_path, {OVER: "$merge: deep\nengine_params:\n  threads: 8\nlicense: MIT\n"}, "dev")
    locations = {
        path: catalogue.location_of("models", "m", *path)
        for path in (("engine_params", "n_ctx"), ("engine_params", "threads"), ("license",), ("quantization",))
    }
    assert [(location.file, location.line) for location in locations.values() if location] == [
        ("models/m.yaml", 5),
        ("models/m.dev.yaml", 3),
        ("models/m.dev.yaml", 4),
        ("models/m.yaml", 7),
    ]


def test_an_error_in_an_overlay_is_reported_at_its_line(tmp_path: Path, wording: Wording) -> None:
    for text in ("license: MIT\nbackends: [enigne]\n", "license: [\n"):
        [error] = errors_of(tmp_path, {OVER: text}, "dev")
        assert error.startswith("models/m.dev.yaml:2: ")
        wording(error)


def test_an_overlay_may_not_rename_and_knows_one_way_to_merge(tmp_path: Path, wording: Wording) -> None:
    wording("\n".join(errors_of(tmp_path, {OVER: "name: other\n$merge: shallow\n"}, "dev")))


@pytest.mark.parametrize("mode", ["prod", "dev"])
def test_an_overlay_without_a_base_is_an_error(tmp_path: Path, mode: str, wording: Wording) -> None:
    [error] = errors_of(tmp_path, {"models/x.dev.yaml": "license: MIT\n"}, mode)
    wording(error)
