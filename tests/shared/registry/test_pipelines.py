"""Entries of pipelines: what is wrong with one is said at once, with its line and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import SHA, Shelf, errors_of, load, write
from tests.support.wording import Wording
from vlmhyperbench.registry.errors import field_of
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.pipelines import MAX_DEPTH, Found, blocked_by, models_of
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.unread_pipelines import check_draft

SMALL = f"backends: [engine]\npackage: weights-package\nfiles: {{weights: w.gguf}}\nsha256: {{weights: {SHA}}}\n"
PIPELINE = """\
execution_mode: sequential
stages:
  - id: read
    type: multi
    models: [m, {model: small, weight: 0.5, optional: true}]
    aggregation: {type: vote, rule: majority, ties: [weight, priority]}
  - id: write
    type: single
    model: small
    input_from: [read]
    generation: {max_tokens: 8}
"""
MODELS = {"models/small.yaml": SMALL}


def nested(name: str) -> str:
    return f"stages:\n  - {{id: s, type: single, model: {{pipeline: {name}}}}}\n"


def test_sampling_parameters_that_nobody_stated_are_not_written(tmp_path: Path) -> None:
    member = "{model: m, generation: {stop: [], temperature: null}}"
    text = PIPELINE.replace("[m, ", f"[{member}, ")
    first, second = (
        load(tmp_path, {**MODELS, "pipelines/p.yaml": text}).pipelines["p"].model_dump(mode="json")["stages"]
    )
    assert (second["generation"], first["generation"]) == ({"max_tokens": 8}, None)
    assert [written["generation"] for written in first["models"]] == [{"stop": [], "temperature": None}, None]


def test_a_pipeline_is_read_with_its_stages(tmp_path: Path) -> None:
    entry = load(tmp_path, {**MODELS, "pipelines/p.yaml": PIPELINE}).pipelines["p"]
    assert [(member.name, stage) for member, stage in models_of(entry)] == [
        ("m", "read"),
        ("small", "read"),
        ("small", "write"),
    ]
    first, second = entry.stages
    assert (first.inputs, second.inputs) == ((), ("read",))
    assert [(member.weight, member.optional) for member in first.members] == [(1.0, False), (0.5, True)]
    assert first.aggregation is not None
    assert dict(first.aggregation.params) == {"rule": "majority", "ties": ["weight", "priority"]}


WRONG = {
    "a later stage, itself, and one that is not": """\
stages:
  - {id: a, type: single, model: m, input_from: b}
  - {id: b, type: single, model: m, input_from: [b, aa, a, a]}
  - {id: c, type: single, model: m}
  - {id: c, type: single, model: m, input_from: a}
""",
    "unknown models and backends": """\
requires: [smal]
stages:
  - {id: a, type: single, model: {model: small, backend: enginee}}
  - id: b
    type: multi
    input_from: a
    models: [smal, mm, {pipeline: nothing}]
    aggregation: {type: synthesis, model: smal}
""",
    "an image for a text-only member": """\
stages:
  - {id: a, type: multi, images: true, models: [m, small], aggregation: {type: concat}}
""",
    "aggregations": """\
stages:
  - {id: a, type: multi, models: [m, small], aggregation: {type: vot}}
  - {id: b, type: multi, input_from: a, models: [m, small], aggregation: {type: vote, rul: majority, quorums: 1}}
  - {id: c, type: multi, input_from: a, models: [m, small], aggregation: {type: vote, rule: best}}
  - {id: d, type: multi, input_from: a, models: [m, small], aggregation: {type: synthesis}}
  - {id: e, type: multi, input_from: a, models: [m, small], aggregation: {type: concat, model: m}}
  - {id: f, type: multi, input_from: a, models: [m, small], aggregation: {type: template, template: "{{ 1 * 2 }}"}}
  - {id: g, type: multi, input_from: a, models: [m, small, m], aggregation: {type: concat}}
""",
    "votes that cannot be": """\
stages:
  - {id: a, type: multi, models: [m, small], aggregation: {type: vote, quorum: 3}}
  - {id: b, type: multi, input_from: a, models: [m, small], aggregation: {type: vote, scope: field, pointer: /a}}
  - id: c
    type: multi
    input_from: a
    models: [m, small]
    aggregation: {type: vote, equivalence: fuzzy, normalise: date}
  - {id: d, type: multi, input_from: a, models: [m, small], aggregation: {type: vote, equivalence: fuzzy, rule: ranked}}
  - {id: e, type: multi, input_from: a, models: [m, small], aggregation: {type: vote, quorum: 2}}
""",
    "a quorum in a stage that cannot be read": """\
stages:
  - {id: a, type: multi, models: [m, {model: small, weight: 0}], aggregation: {type: vote, quorum: 3}}
""",
    "keys": """\
execution_mode: parallel
stage: 1
stages:
  - {id: a, type: single, models: [m, small]}
  - {id: b, type: multi, models: [m], aggregation: {type: concat}}
  - {id: c, type: translate, model: m, source_language: en}
  - {id: d, type: single, model: m, instruction: x}
  - id: e
    type: multi
    models: [{model: m, optional: true}, {model: small, optional: true}]
    aggregation: {type: vote}
  - {id: f, type: single, model: {model: m, pipeline: p}}
  - {id: g, type: single, model: {weight: 0}}
  - {id: h, type: single, model: {pipeline: p, backend: engine}}
  - {id: i, type: parallel, model: m}
""",
    "no stages": "stages: []\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_all_that_is_wrong_is_said_at_once(tmp_path: Path, name: str, wording: Wording) -> None:
    wording("\n".join(errors_of(tmp_path, {**MODELS, "pipelines/p.yaml": WRONG[name]})))


@pytest.mark.parametrize(
    "files",
    [
        {"a": nested("a")},
        {"a": nested("b"), "b": nested("c"), "c": nested("a")},
        {f"p{level}": nested(f"p{level + 1}") for level in range(MAX_DEPTH)}
        | {f"p{MAX_DEPTH}": "stages:\n  - {id: s, type: single, model: m}\n"},
    ],
    ids=["itself", "a circle", "too deep"],
)
def test_pipelines_in_pipelines_end(tmp_path: Path, files: dict[str, str], wording: Wording) -> None:
    pipelines = {f"pipelines/{name}.yaml": text for name, text in files.items()}
    wording("\n".join(errors_of(tmp_path, pipelines)))


def test_pipelines_may_be_nested_to_the_depth(tmp_path: Path) -> None:
    files = {f"pipelines/p{level}.yaml": nested(f"p{level + 1}") for level in range(1, MAX_DEPTH)}
    files[f"pipelines/p{MAX_DEPTH}.yaml"] = "stages:\n  - {id: s, type: single, model: m}\n"
    assert errors_of(tmp_path, files) == []


def test_a_pipeline_is_blocked_by_each_model_that_it_needs(tmp_path: Path) -> None:
    text = f"requires: [other]\n{PIPELINE}"
    entry = load(tmp_path, {**MODELS, "models/other.yaml": SMALL, "pipelines/p.yaml": text}).pipelines["p"]
    assert blocked_by(entry, Found(unusable={}, doubtful={}), {}) == ([], [], [])
    found = Found(unusable={"small": "missing", "other": "invalid", "unused": "missing"}, doubtful={})
    reasons, warnings, _ = blocked_by(entry, found, {})
    assert reasons == ["it requires other: invalid", "write asks small: missing"]
    assert warnings == ["read asks small: missing"]


def test_a_pipeline_is_blocked_by_what_the_pipelines_in_it_need_and_warned_of_what_may_not_fit(tmp_path: Path) -> None:
    outer = "stages:\n  - {id: first, type: single, model: {pipeline: p}}\n"
    catalogue = load(tmp_path, {**MODELS, "pipelines/p.yaml": PIPELINE, "pipelines/outer.yaml": outer})
    entry, pipelines = catalogue.pipelines["outer"], catalogue.pipelines
    missing = Found(unusable={"small": "missing"}, doubtful={})
    assert blocked_by(entry, missing, pipelines)[0] == ["first asks p: write asks small: missing"]
    large = Found(unusable={}, doubtful={"small": "too large"})
    reasons, warnings, doubts = blocked_by(entry, large, pipelines)
    assert (reasons, warnings) == ([], [])
    assert doubts == ["first asks p: read asks small: too large", "first asks p: write asks small: too large"]
    assert blocked_by(entry, missing, pipelines).warnings == ["first asks p: read asks small: missing"]


def test_a_draft_is_checked_stage_by_stage_where_others_cannot_be_read(tmp_path: Path) -> None:
    references = References(catalogue=load(tmp_path, MODELS), plugins=Shelf())
    draft = {
        "execution_mode": "parallel",
        "stages": [
            {"id": "a", "type": "multi", "models": ["m", "mm", 1], "input_from": "b"},
            {"id": "b", "type": "single", "model": "smal", "input_from": ["a", "c"]},
            "nothing",
        ],
    }
    assert check_draft(references, "draft", draft) is None
    assert [field_of(problem.path) for problem in references.problems] == [
        "execution_mode",
        "stages.0.models.2",
        "stages.2",
        "stages.0.input_from",
        "stages.0",
        "stages.0.models.1",
        "stages.1.input_from.1",
        "stages.1.model",
    ]


MANY = """\
requires: [smal]
stages:
  - id: a
    type: multi
    models: [{model: m, weight: -1}, {model: small, weight: 0, backend: enginee}, mm]
    aggregation: {type: vote, rule: best, quorum: 0, ties: [luck], extract: regex, pattern: "(["}
  - {id: a, type: multi, models: [{model: m, weight: -1}], input_from: c, aggregation: {type: vot}}
"""


def test_a_wrong_weight_hides_no_other_mistake_of_its_stage(tmp_path: Path) -> None:
    catalogue = read_catalogue([write(tmp_path, {**MODELS, "pipelines/p.yaml": MANY})], plugins=Shelf())
    fields = {
        "requires.0",
        "stages.0.models.0.weight",
        "stages.0.models.1.weight",
        "stages.0.models.1.backend",
        "stages.0.models.2",
        "stages.0.aggregation.rule",
        "stages.0.aggregation.quorum",
        "stages.0.aggregation.ties",
        "stages.0.aggregation.pattern",
        "stages.1.id",
        "stages.1",
        "stages.1.models.0.weight",
        "stages.1.input_from",
        "stages.1.aggregation.type",
    }
    assert {error.field for error in catalogue.errors} == fields
    assert len(catalogue.errors) == len(fields)
    assert set(catalogue.broken["pipelines", "p"]) == set(catalogue.errors)
    assert {error.line for error in catalogue.errors if error.field.startswith("stages.0.aggregation")} == {6}


def test_a_draft_that_can_be_read_is_checked_as_an_entry_of_its_name(tmp_path: Path) -> None:
    references = References(catalogue=load(tmp_path, MODELS), plugins=Shelf())
    stage = {"id": "a", "type": "single", "model": {"pipeline": "mine"}}
    entry = check_draft(references, "mine", {"stages": [stage]})
    assert entry is not None
    assert [stage.id for stage in entry.stages] == ["a"]
    assert [field_of(problem.path) for problem in references.problems] == ["stages.0.model.pipeline"]
    assert "mine" not in references.catalogue.pipelines
