"""Every run of the registry, written out as an entry, resolves to the same spec; and its command says the same."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from vlmhyperbench.cli.run import _entry as entry_of_flags
from vlmhyperbench.cli.run_flags import TargetFlags, TaskFlags
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.commands import FILE, command_of, default_name
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.resolution import resolve_experiment, resolve_run
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.registry.writing_out import entry_of

PLUGINS = InstalledPlugins()
PRICES = {"per_hour": 2, "source": "invoice", "date": "2026-01-31"}
SMALL = {"target": {"model": "simulated-instant"}, "task": "document-qa"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return read_catalogue([Path(__file__).parents[3] / "registries"], run_mode="dev")


def _spec(catalogue: Catalogue, **choices: object) -> RunSpec:
    return resolve_run(catalogue, RunEntry.model_validate({**SMALL, **choices}), plugins=PLUGINS)


def test_every_registered_run_written_out_resolves_to_the_same_spec(catalogue: Catalogue) -> None:
    specs = [resolve_run(catalogue, run, plugins=PLUGINS) for run in catalogue.runs.values()]
    for experiment in catalogue.experiments.values():
        specs += [spec for _, spec in resolve_experiment(catalogue, experiment, plugins=PLUGINS)]
    assert len(specs) > 20
    for spec in specs:
        entry = RunEntry.model_validate(entry_of(catalogue, spec, plugins=PLUGINS))
        assert resolve_run(catalogue, entry, plugins=PLUGINS) == spec


@pytest.mark.parametrize(
    "choices",
    [
        {"limit": 5, "decoding": {"max_tokens": 9, "temperature": 0.5}},
        {"scenario": {"name": "alone", "kind": "single_stream", "requests": 7}},
        {"dataset": {"name": "synthetic-documents", "seed": 3}, "limit": 4},
        {"metrics": ["exact_match"], "reports": ["html"], "reuse": "nothing", "on_invalid": "zero"},
        {"limits": {"shard_size": 3}, "response_format": "json_schema", "shares_device": True},
        {"target": {"model": "simulated-instant", "engine_params": {"seed": 4}, "prices": PRICES}},
        {"target": {"endpoint": "https://models.example.org/v1", "model_name": "a/b"}},
    ],
    ids=["limit", "scenario", "dataset", "scoring", "limits", "engine", "endpoint"],
)
def test_choices_written_out_resolve_to_the_same_spec(catalogue: Catalogue, choices: dict[str, object]) -> None:
    spec = _spec(catalogue, **choices)
    entry = entry_of(catalogue, spec, plugins=PLUGINS)
    assert resolve_run(catalogue, RunEntry.model_validate(entry), plugins=PLUGINS) == spec


def test_a_run_of_a_model_that_is_gone_is_written_out_by_its_names(catalogue: Catalogue) -> None:
    spec = _spec(catalogue, limit=5)
    gone = spec.model_copy(update={"target": spec.target.model_copy(update={"model": "gone"})})
    entry = entry_of(catalogue, gone, plugins=PLUGINS)
    target, metrics = entry["target"], entry["metrics"]
    assert isinstance(target, dict)
    assert target["model"] == "gone"
    assert metrics


def test_a_run_with_imported_answers_cannot_be_written_out(catalogue: Catalogue) -> None:
    target = ImportTarget(model_name="m", format="inspect", answers="a" * 64)
    with pytest.raises(InvalidInput) as refused:
        entry_of(catalogue, _spec(catalogue).model_copy(update={"target": target}), plugins=PLUGINS)
    assert refused.value.code == "imported"


def test_the_flags_of_a_command_make_the_same_entry() -> None:
    entry = RunEntry.model_validate(
        {
            "target": {"endpoint": "http://localhost:8000/v1", "model_name": "a b", "engine_params": {"x": [1, "a"]}},
            "task": "document-qa",
            "limit": 3,
            "metrics": ["anls", "exact_match"],
            "decoding": {"max_tokens": 9, "stop": ["\n", "-end"]},
            "extractors": [{"name": "regex", "params": {"pattern": "a 'b'"}}],
        }
    )
    command = command_of(entry, name="a 'name'")
    assert not command.reads_file
    given = _flags(command.text)
    target = TargetFlags(
        endpoint=given["endpoint"][0], model_name=given["model-name"][0], engine_param=tuple(given["engine-param"])
    )
    task = TaskFlags(
        task=given["task"][0],
        limit=int(given["limit"][0]),
        metric=tuple(given["metric"]),
        max_tokens=int(given["max-tokens"][0]),
        stop_text=tuple(given["stop-text"]),
        extractor=tuple(given["extractor"]),
    )
    assert entry_of_flags(None, target, task, secrets=(), output=None) == entry  # type: ignore[arg-type]
    assert given["name"] == ["a 'name'"]


def _flags(command: str) -> dict[str, list[str]]:
    words, given = shlex.split(command)[2:], dict[str, list[str]]()
    while words:
        flag, equals, value = words.pop(0).removeprefix("--").partition("=")
        given.setdefault(flag, []).append(value if equals else words.pop(0))
    return given


@pytest.mark.parametrize(
    "choices",
    [
        {"reuse": "nothing"},
        {"dataset": {"name": "synthetic-documents", "seed": 3}},
        {"decoding": {"temperature": None}},
        {"group_by": []},
        {"target": {"model": "file.gguf"}},
        {"target": {"model": "m", "engine_params": {"a=b": 1}}},
        {"target": {"model": "m", "prices": PRICES}},
    ],
)
def test_what_flags_cannot_say_is_read_from_a_file(choices: dict[str, object]) -> None:
    command = command_of(RunEntry.model_validate({**SMALL, **choices}), priority=-3)
    assert (command.text, command.reads_file) == (f"vlmhyperbench run {FILE} --priority=-3", True)


def test_a_registered_run_is_named() -> None:
    assert command_of("demo").text == "vlmhyperbench run demo"


def test_a_command_leaves_out_the_name_that_it_would_choose() -> None:
    entry = RunEntry.model_validate(SMALL)
    assert "--name" not in command_of(entry, name=default_name(entry)).text
    assert command_of(entry, name="other").text.endswith("--name other")
