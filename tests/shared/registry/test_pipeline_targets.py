"""A pipeline as the target of a run: its models are pinned with their sampling, and what it cannot do is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.shared.registry.writing import SHA, Shelf, load
from tests.support import gguf
from vlmhyperbench.domain.pipelines import PipelineTarget, StageSpec
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.pipeline_targets import MAX_ASKED
from vlmhyperbench.registry.resolution import left_out, resolve_run
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.registry.served_pipelines import pin_served

SMALL = f"backends: [engine]\npackage: weights-package\nfiles: {{weights: w.gguf}}\nsha256: {{weights: {SHA}}}\n"
MIXED = """\
stages:
  - id: read
    type: multi
    models: [m, {model: m, weight: 2, optional: true, generation: {temperature: 1}, engine_params: {n_ctx: 1024}}]
    generation: {max_tokens: 8}
    aggregation: {type: synthesis, model: small, seed: 3}
  - {id: turn, type: translate, model: small, input_from: read, source_language: German, target_language: English}
  - {id: keep, type: single, model: m, input_from: [read, turn], response_format: {type: json_object}}
"""
BLIND = "stages:\n  - {id: a, type: multi, models: [m, small], aggregation: {type: concat}}\n"

MERGED_BY_A_PIPELINE = """\
stages:
  - {id: a, type: multi, models: [m, small], aggregation: {type: synthesis, model: {pipeline: inner}}}
"""
AROUND = """\
stages:
  - {id: ask, type: single, model: m, system_prompt: Be exact.}
  - id: read
    type: multi
    input_from: ask
    instructions: Look again.
    generation: {max_tokens: 9}
    models: [m, {pipeline: inner, weight: 2, optional: true}]
    aggregation: {type: vote}
"""
INNER = """\
stages:
  - {id: first, type: single, model: small, instructions: First., generation: {temperature: 1}}
  - {id: last, type: single, model: m, input_from: first}
"""


def pinned(folder: Path, text: str, **choices: object) -> tuple[StageSpec, ...]:
    catalogue = load(folder, {"models/small.yaml": SMALL, "pipelines/p.yaml": text, "pipelines/inner.yaml": INNER})
    entry = RunEntry.model_validate({"target": {"pipeline": "p"}, "task": "t", **choices})
    spec = resolve_run(catalogue, entry, plugins=Shelf())
    assert isinstance(spec.target, PipelineTarget)
    assert (spec.prices, spec.unpriced is None) == (None, False)
    return spec.target.stages


def test_members_of_one_model_have_names_of_their_own_and_the_sampling_of_run_stage_and_member(tmp_path: Path) -> None:
    read, turn, keep = pinned(tmp_path, MIXED, decoding={"temperature": 0.5, "seed": 7})
    first, second = read.members
    assert [(member.name, member.weight, member.is_optional) for member in read.members] == [
        ("m #1", 1.0, False),
        ("m #2", 2.0, True),
    ]
    assert (first.decoding.temperature, first.decoding.max_tokens, first.decoding.seed) == (0.5, 8, 7)
    assert (second.decoding.temperature, second.decoding.max_tokens, second.decoding.seed) == (1, 8, 7)
    assert (first.target.engine_params["n_ctx"], second.target.engine_params["n_ctx"]) == (512, 1024)
    assert read.aggregation is not None
    assert read.aggregation.merger is not None
    assert (read.aggregation.params, read.aggregation.is_repaired) == ({"seed": 3}, True)
    assert (read.aggregation.merger.name, read.aggregation.merger.sees_images) == ("small", False)
    assert turn.instructions == "Translate the text from German to English. Write the translation only."
    assert (turn.inputs, keep.inputs) == (("read",), ("read", "turn"))


def test_the_first_stage_sees_images(tmp_path: Path) -> None:
    read, turn, keep = pinned(tmp_path, MIXED)
    assert [member.sees_images for stage in (read, turn, keep) for member in stage.members] == [
        True,
        True,
        False,
        False,
    ]


def test_a_model_that_is_to_see_images_and_reads_none_is_blind(tmp_path: Path) -> None:
    (stage,) = pinned(tmp_path, BLIND)
    assert [member.is_blind for member in stage.members] == [False, True]


def test_the_response_format_of_the_run_is_that_of_the_last_stage_unless_it_has_its_own(tmp_path: Path) -> None:
    assert [stage.response_format for stage in pinned(tmp_path / "a", MIXED)] == [None, None, {"type": "json_object"}]
    (stage,) = pinned(tmp_path / "b", BLIND, response_format={"type": "json_object"})
    assert stage.response_format == {"type": "json_object"}


def test_the_stages_of_a_pipeline_in_a_stage_stand_before_it_and_get_what_it_gets(tmp_path: Path) -> None:
    stages = pinned(tmp_path, AROUND, response_format={"type": "json_object"})
    ask, first, last, read = stages
    assert [(stage.id, stage.within, stage.inputs) for stage in stages] == [
        ("ask", None, ()),
        ("read/inner/first", "read/inner", ("ask",)),
        ("read/inner/last", "read/inner", ("read/inner/first",)),
        ("read", None, ("ask",)),
    ]
    assert (first.instructions, last.instructions) == ("First.\n\nLook again.", None)
    [small] = first.members
    assert (small.decoding.max_tokens, small.decoding.temperature, small.sees_images) == (9, 1, False)
    assert [stage.response_format for stage in (ask, first, last, read)] == [
        None,
        None,
        {"type": "json_object"},
        {"type": "json_object"},
    ]
    [inner] = read.inner
    assert (inner.name, inner.stage, inner.weight, inner.is_optional) == ("inner", "read/inner/last", 2.0, True)
    assert [member.name for member in read.answering] == ["m", "inner"]


def test_a_served_pipeline_states_the_sampling_of_the_pipelines_around_a_model(tmp_path: Path) -> None:
    files = {"models/small.yaml": SMALL, "pipelines/p.yaml": AROUND, "pipelines/inner.yaml": INNER}
    own = pin_served(load(tmp_path, files), Shelf(), "p").own
    stated = {" ".join(key): decoding.model_dump(exclude_unset=True) for key, decoding in own.items()}
    assert stated == {
        "ask member m": {},
        "read/inner/first member small": {"max_tokens": 9, "temperature": 1.0},
        "read/inner/last member m": {"max_tokens": 9},
        "read member m": {"max_tokens": 9},
    }


def test_no_more_models_are_asked_than_a_run_can_list(tmp_path: Path) -> None:
    models = ", ".join(f"{{model: m, weight: {no}}}" for no in range(1, 17))
    aggregation = "aggregation: {type: concat}"
    wide = f"stages:\n  - {{id: a, type: multi, models: [{models}], {aggregation}}}\n"
    pipelines = ", ".join(f"{{pipeline: wide, weight: {no}}}" for no in range(1, 17))
    widest = f"stages:\n  - {{id: a, type: multi, models: [{pipelines}], {aggregation}}}\n"
    more = "  - {id: b, type: single, model: m, input_from: a}\n"
    load_with = {"models/small.yaml": SMALL, "pipelines/wide.yaml": wide}
    whole = pin_served(load(tmp_path / "a", {**load_with, "pipelines/p.yaml": widest}), Shelf(), "p")
    assert sum(len(stage.members) for stage in whole.target.stages) == MAX_ASKED
    with pytest.raises(RegistryErrors) as raised:
        pin_served(load(tmp_path / "b", {**load_with, "pipelines/p.yaml": widest + more}), Shelf(), "p")
    assert [error.field for error in raised.value.errors] == ["pipeline"]


def test_a_pipeline_that_contains_itself_is_refused_though_the_catalogue_was_not_checked(tmp_path: Path) -> None:
    files = {"models/small.yaml": SMALL, "pipelines/p.yaml": AROUND, "pipelines/inner.yaml": INNER}
    catalogue = load(tmp_path, files)
    circle = replace(catalogue, pipelines={**catalogue.pipelines, "inner": catalogue.pipelines["p"]})
    with pytest.raises(RegistryErrors) as raised:
        pin_served(circle, Shelf(), "p")
    assert [error.field for error in raised.value.errors] == ["pipeline"]


TRANSLATING = """\
stages:
  - {id: turn, type: translate, model: gemma, source_language: SOURCE, target_language: de-AT}
"""
GEMMA = SMALL + "request_style: translategemma\nreasoning_marks: [{end: x}]\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TRANSLATING.replace("SOURCE", "en"), 0),
        (TRANSLATING.replace("SOURCE", "English"), 1),
        (TRANSLATING.replace("SOURCE", "en, instructions: Be brief."), 1),
        ("stages:\n  - {id: turn, type: single, model: gemma}\n", 1),
    ],
    ids=["codes", "a name of a language", "instructions", "no stage that translates"],
)
def test_a_model_that_is_told_languages_by_its_template_is_asked_with_their_codes(
    tmp_path: Path, text: str, count: int
) -> None:
    catalogue = load(tmp_path, {"models/gemma.yaml": GEMMA, "pipelines/p.yaml": text})
    if count:
        with pytest.raises(RegistryErrors) as raised:
            pin_served(catalogue, Shelf(), "p")
        assert len(raised.value.errors) == count
        return
    [stage] = pin_served(catalogue, Shelf(), "p").target.stages
    assert stage.languages is not None
    assert (stage.languages.source, stage.languages.target, stage.instructions) == ("en", "de-AT", None)
    [gemma] = stage.members
    assert gemma.target.model_dump()["reasoning_marks"] == ({"begin": "", "end": "x"},)


@pytest.mark.parametrize(
    ("text", "choices", "path"),
    [
        (BLIND, {"scenario": "single"}, "scenario"),
        (BLIND, {"stop": {"rule": "better"}}, "stop"),
        (BLIND, {"target": {"pipeline": "q"}}, "target.pipeline"),
        (MERGED_BY_A_PIPELINE, {}, "target.pipeline"),
    ],
    ids=["a timed scenario", "a stop rule", "an unknown one", "a pipeline that merges"],
)
def test_what_a_pipeline_cannot_do_is_refused(tmp_path: Path, text: str, choices: dict[str, object], path: str) -> None:
    files = {
        "models/small.yaml": SMALL,
        "pipelines/p.yaml": text,
        "pipelines/inner.yaml": BLIND,
    }
    catalogue = load(tmp_path, files)
    entry = RunEntry.model_validate({"target": {"pipeline": "p"}, "task": "t", **choices})
    with pytest.raises(RegistryErrors) as raised:
        resolve_run(catalogue, entry, plugins=Shelf())
    assert path in [error.field for error in raised.value.errors]


OPTIONAL = """\
stages:
  - id: read
    type: multi
    models: [m, {model: there, optional: true}, {model: gone, optional: true}]
    aggregation: {type: concat}
"""


def local(folder: Path, name: str) -> str:
    return f"backends: [engine]\npath: {folder}\nfiles: {{weights: {name}.gguf}}\nsha256: {{weights: {SHA}}}\n"


def test_an_optional_model_whose_file_is_gone_is_left_out_and_said_so(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    for name in ("there", "gone"):
        (weights / f"{name}.gguf").write_bytes(gguf.whole())
    entries = {f"models/{name}.yaml": local(weights, name) for name in ("there", "gone")}
    catalogue = load(tmp_path / "registries", {**entries, "pipelines/p.yaml": OPTIONAL})
    entry = RunEntry.model_validate({"target": {"pipeline": "p"}, "task": "t"})
    whole = resolve_run(catalogue, entry, plugins=Shelf())
    assert left_out(whole) == []
    (weights / "gone.gguf").unlink()
    spec = resolve_run(catalogue, entry, plugins=Shelf())
    assert isinstance(spec.target, PipelineTarget)
    (stage,) = spec.target.stages
    assert [member.name for member in stage.members] == ["m", "there"]
    assert [(each.name, str(weights / "gone.gguf") in each.reason) for each in stage.dropped] == [("gone", True)]
    assert len(left_out(spec)) == 1
    assert spec.target_digest != whole.target_digest


def test_smaller_quantisations_are_pinned_only_where_quality_may_be_given_up(tmp_path: Path) -> None:
    def quantised(name: str, quantization: str, more: str = "") -> tuple[str, str]:
        text = SMALL.replace("w.gguf", f"{name}.gguf") + f"quantization: {quantization}\n{more}"
        return f"models/{name}.yaml", text

    variants = (("q4", "Q4_0"), ("q8", "Q8_0"), ("f32", "F32"))
    entries = dict([quantised("big", "F16"), *(quantised(name, kind, "variant_of: big\n") for name, kind in variants)])
    stage = "stages:\n  - {id: a, type: single, model: big}\nexecution_mode: sequential\n"
    catalogue = load(tmp_path, {**entries, "pipelines/p.yaml": stage})
    choices = {"task": "t", "limits": {"allow_lossy": True}}
    alone = RunEntry.model_validate({"target": {"model": "big"}, **choices})
    assert [each.model for each in resolve_run(catalogue, alone, plugins=Shelf()).smaller] == ["q8", "q4"]
    whole = alone.model_copy(update={"limits": alone.limits.model_copy(update={"allow_lossy": False})})
    assert resolve_run(catalogue, whole, plugins=Shelf()).smaller == ()
    piped = resolve_run(
        catalogue, RunEntry.model_validate({"target": {"pipeline": "p"}, **choices}), plugins=Shelf()
    ).target
    assert isinstance(piped, PipelineTarget)
    assert piped.execution_mode == "sequential"
    assert [each.model for each in piped.stages[0].members[0].smaller] == ["q8", "q4"]
