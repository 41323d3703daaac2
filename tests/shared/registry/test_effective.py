"""Effective values with their origins, and differences between catalogues."""

from __future__ import annotations

from pathlib import Path

from tests.shared.registry.writing import Shelf, load, write
from vlmhyperbench.registry.effective import differences, effective_values
from vlmhyperbench.registry.loading import read_catalogue

OVER = {"models/m.dev.yaml": "$merge: deep\nengine_params:\n  threads: 8\nlicense: MIT\n"}


def test_every_value_has_the_line_that_wrote_it_an_overlay_or_the_default(tmp_path: Path) -> None:
    values = {value.path: value for value in effective_values(load(tmp_path, OVER, "dev"), "models", "m")}
    assert (values["engine_params.n_ctx"].value, values["engine_params.n_ctx"].origin) == (512, "models/m.yaml:5")
    assert (values["license"].value, values["license"].origin) == ("MIT", "models/m.dev.yaml:4")
    assert values["license"].is_of_overlay
    assert not values["quantization"].is_of_overlay
    assert (values["version"].value, values["version"].origin) == ("1.0.0", "default")


def test_modes_differ_in_the_values_of_overlays(tmp_path: Path) -> None:
    write(tmp_path, OVER)
    prod, dev = (read_catalogue([tmp_path], mode, plugins=Shelf()) for mode in ("prod", "dev"))
    found = {difference.path: difference for difference in differences(prod, dev)}
    assert set(found) == {"engine_params.threads", "license"}
    assert found["engine_params.threads"].left is None
    first, second = found["license"].left, found["license"].right
    assert first is not None
    assert second is not None
    assert (first.value, second.value, second.origin) == ("Apache-2.0", "MIT", "models/m.dev.yaml:4")
    assert differences(prod, prod) == []


def test_an_entry_of_one_side_is_missing_on_the_other(tmp_path: Path) -> None:
    less = read_catalogue([write(tmp_path / "a")], plugins=Shelf())
    more = read_catalogue([write(tmp_path / "b", {"prompts/q.yaml": "user_prompt: x\n"})], plugins=Shelf())
    [difference] = differences(less, more)
    assert (difference.kind, difference.name, difference.path, difference.left) == ("prompts", "q", "user_prompt", None)
