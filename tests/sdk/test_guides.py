"""What the guides for writers of plugins show is true: every example keeps its contract, and its entry can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.guides import GUIDES, read_guide
from tests.support.pages import execute
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.metrics import check_metric


@pytest.mark.parametrize("name", GUIDES)
def test_the_example_of_a_guide_keeps_its_contract(name: str) -> None:
    execute(GUIDES[name])


@pytest.mark.parametrize("name", GUIDES)
def test_the_entry_point_of_a_guide_names_a_class_that_it_shows(name: str) -> None:
    guide = read_guide(name)
    made: dict[str, object] = {"__name__": guide.module}
    exec(compile(guide.source, f"{guide.module}.py", "exec"), made)
    assert guide.entry_points
    for target in guide.entry_points.values():
        module, _, attribute = target.partition(":")
        assert module == guide.module
        assert isinstance(made[attribute], type)


@pytest.mark.parametrize("name", GUIDES)
def test_the_registry_files_of_a_guide_are_entries(name: str) -> None:
    guide = read_guide(name)
    assert guide.files
    for path, text in guide.files.items():
        KINDS[Path(path).parent.name].model_validate(yaml.safe_load(text))


def test_the_suite_notices_a_metric_that_breaks_its_contract() -> None:
    shown = execute(GUIDES["metric"])
    broken = type("Broken", (shown["WordOverlap"],), {"combine": lambda self, sums: 0.5})
    with pytest.raises(PluginFailure):
        check_metric(broken())


def test_what_the_examples_refuse_is_refused() -> None:
    sums, calculator = execute(GUIDES["dataset"])["Sums"], execute(GUIDES["adapter"])["Calculator"]
    with pytest.raises(InvalidInput):
        sums(DatasetSource(params={"cuont": 1}))
    load = LoadRequest(model="m", backend_class="calculator", engine_params={"shift": 1})
    with pytest.raises(InvalidInput):
        calculator().plan_engine(load, port=1, python="python")


def test_a_guide_is_found_from_the_sdk_and_from_contributing() -> None:
    root = Path(__file__).parents[2]
    for page in (root / "CONTRIBUTING.md", root / "shared" / "sdk" / "README.md", root / "docs" / "README.md"):
        text = page.read_text(encoding="utf-8")
        assert all(guide.name in text for guide in GUIDES.values()), page


def test_every_group_of_plugins_has_a_guide() -> None:
    groups = {group for name in GUIDES for group in read_guide(name).groups}
    assert groups == {"metrics", "datasets", "prompts", "backends", "reports"}
