"""Prompts that a plugin makes: rendered like templates, in bounds, and whatever the plugin does has a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.bounded import ChildBounds
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.data.rendering import render_prompts
from vlmhyperbench.domain.specs import PackageRef, PluginRef, PromptStrategySpec
from vlmhyperbench.errors import Conflict, InvalidInput, PluginFailure
from vlmhyperbench.registry.plugins import InstalledPlugins

pytestmark = pytest.mark.anyio
SMALL = ChildBounds(memory_bytes=256 * 1024**2, cpu_s=2, wall_s=60)
SAMPLES = [
    ManifestSample(index=no, key=f"k{no}", question=question, references=("secret",), metadata={"doc_class": "ticket"})
    for no, question in enumerate(("first\nline", "second"))
]

PLUGIN = """
import os
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import Prompt

print("imported")

class Steps:
    def __init__(self, *, steps=1, loud=False):
        self._steps = steps

    def render(self, sample):
        print("rendering")
        seen = [sample.key, sample.metadata["doc_class"], *sample.references, *sample.images]
        seen += map(str, range(self._steps))
        return Prompt(user=f"{sample.question} {seen}", system="Think.")

class Refuses:
    def render(self, sample):
        raise InvalidInput("The sample has no schema.", cure="Add one.")

class Breaks:
    def render(self, sample):
        return {}["nothing"]

class Surrogate:
    def render(self, sample):
        return Prompt(user="\\ud800")

class Endless:
    def render(self, sample):
        while True:
            pass

class Greedy:
    def render(self, sample):
        return Prompt(user="x" * 2**40)

class Knows:
    def render(self, sample):
        return Prompt(user=str(sorted(name for name in os.environ if name.startswith("VLMHB_"))))
"""


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompting.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def _spec(name: str, *, package: PluginRef | None = None, **params: int | str) -> PromptStrategySpec:
    return PromptStrategySpec(name="p", version="1.0.0", class_path=f"prompting:{name}", package=package, params=params)


async def test_a_plugin_sees_key_question_and_metadata_and_no_answers() -> None:
    prompts = await render_prompts(_spec("Steps", steps=2), SAMPLES)
    assert [prompt.user for prompt in prompts] == [
        "first\nline ['k0', 'ticket', '0', '1']",
        "second ['k1', 'ticket', '0', '1']",
    ]
    assert {prompt.system for prompt in prompts} == {"Think."}
    assert await render_prompts(_spec("Steps"), []) == []


async def test_params_that_the_plugin_does_not_know_are_refused() -> None:
    with pytest.raises(InvalidInput, match="steps, loud"):
        await render_prompts(_spec("Steps", stops=2), SAMPLES)
    with pytest.raises(InvalidInput, match="loud"):
        await render_prompts(_spec("Steps", loud="false"), SAMPLES)


async def test_another_version_than_the_run_pins_is_a_conflict() -> None:
    installed = PackageRef(distribution="vlmhyperbench-sdk", version="0.1.0")
    assert await render_prompts(_spec("Steps", package=installed), SAMPLES)
    for distribution in ("vlmhyperbench-sdk", "no-such-package"):
        pinned = PackageRef(distribution=distribution, version="9.9.9")
        with pytest.raises(Conflict) as raised:
            await render_prompts(_spec("Steps", package=pinned), SAMPLES)
        assert raised.value.code == "plugin_version"


async def test_a_module_that_was_edited_since_the_run_was_submitted_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    submitted = InstalledPlugins().pin("prompts", "prompting:Steps")
    assert await render_prompts(_spec("Steps", package=submitted), SAMPLES)
    (tmp_path / "prompting.py").write_text(PLUGIN.replace("Think.", "Think again."))
    with pytest.raises(Conflict) as raised:
        await render_prompts(_spec("Steps", package=submitted), SAMPLES)
    assert raised.value.code == "plugin_version"
    submitted_again = InstalledPlugins().pin("prompts", "prompting:Steps")
    prompts = await render_prompts(_spec("Steps", package=submitted_again), SAMPLES)
    assert {prompt.system for prompt in prompts} == {"Think again."}


@pytest.mark.parametrize(("name", "named"), [("Breaks", "'k0': KeyError"), ("Surrogate", "surrogate")])
async def test_a_plugin_that_fails_is_named_with_the_sample(name: str, named: str) -> None:
    with pytest.raises(PluginFailure, match=named) as raised:
        await render_prompts(_spec(name), SAMPLES)
    assert raised.value.code == "prompt"


async def test_the_error_of_a_plugin_that_refuses_a_sample_is_raised() -> None:
    with pytest.raises(InvalidInput) as raised:
        await render_prompts(_spec("Refuses"), SAMPLES)
    assert raised.value.cure == "Add one."


@pytest.mark.parametrize("name", ["Endless", "Greedy"])
async def test_a_plugin_that_never_ends_or_needs_all_memory_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        await render_prompts(_spec(name), SAMPLES, bounds=SMALL)
    assert raised.value.code == "prompt"


async def test_a_plugin_is_given_no_settings_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_DATABASE_URL", "postgresql://user:password@host/db")
    [prompt, _] = await render_prompts(_spec("Knows"), SAMPLES)
    assert prompt.user == "[]"
