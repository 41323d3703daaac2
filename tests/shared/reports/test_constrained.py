"""A comparison shows what a response format changes in each level of structural fidelity."""

from __future__ import annotations

import json

from tests.shared.reports.builders import comparison_of, evidence, fact, run_spec
from tests.shared.reports.reading import figures_of, section_of, tables_of
from tests.support.wording import Wording
from vlmhyperbench.reports.document import Document
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_structure_metrics.structural_fidelity import StructuralFidelity

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
METRIC = StructuralFidelity(schema=SCHEMA)
NUMBER, TEXT, NONE = '{"total": 5}', '{"total": "5"}', "Total: 5"
OBJECT = {"type": "json_object"}
OWN = {"type": "json_schema"}


def _run(name: str, answers: list[str], *, model: str = "m", wanted: dict[str, str] | None = None) -> RunEvidence:
    spec = run_spec(metrics=(METRIC,))
    target = spec.target.model_copy(update={"model": model, "quantization": None})
    spec = spec.model_copy(update={"target": target, "response_format": wanted})
    rows = [fact(i, answer, NUMBER, images=[f"{i:02x}" * 32]) for i, answer in enumerate(answers)]
    return evidence(rows, metrics=(METRIC,), name=name, id=name, spec=spec)


def _document(*runs: RunEvidence) -> Document:
    return comparison_of("e", "constrained", "DONE", list(runs))


def _levels(document: Document, name: str) -> dict[str, tuple[float | None, float | None]]:
    """Return level → free and constrained value, of a pair of runs."""
    rows = [row for row in tables_of(document)["constrained-levels"].rows if row[0] == name]
    values = {str(row[1]): (row[2].value, row[3].value) for row in rows}
    return {title.partition(" ")[0] + "r" * ("recall" in title): pair for title, pair in values.items()}


FREE = [NUMBER] * 8 + [TEXT] * 8 + [NONE] * 8
MADE = [NUMBER] * 24


def test_every_level_is_paired_with_the_free_answers_of_the_same_target() -> None:
    document = _document(
        _run("a", FREE),
        _run("b", MADE, model="n"),
        _run("a · own", MADE, wanted=OWN),
        _run("b · own", FREE, model="n", wanted=OWN),
    )
    levels = _levels(document, "m · json_schema")
    assert levels["L0"] == (1, 1)
    assert levels["L1"] == (16 / 24, 1)
    assert levels["L3"] == (8 / 24, 1)
    assert levels["L4r"] == (16 / 24, 1)
    assert levels["L6"] == (8 / 24, 1)
    assert _levels(document, "n · json_schema")["L3"] == (1, 8 / 24)
    assert "constrained-figure" in figures_of(document)


def test_runs_of_one_target_and_format_have_their_own_names() -> None:
    runs = [_run("a", FREE), _run("a 1", MADE, wanted=OWN), _run("a 2", MADE, wanted=OWN)]
    assert {row[0] for row in tables_of(_document(*runs))["constrained-levels"].rows} == {"a 1", "a 2"}


def test_p_values_are_adjusted_over_the_levels_and_the_verdicts_are_said(wording: Wording) -> None:
    document = _document(_run("a", FREE), _run("a · own", MADE, wanted=OWN))
    section = section_of(document, "constrained")
    wording(section.lead)
    rows = {str(row[1])[:2]: row for row in tables_of(document)["constrained-levels"].rows}
    assert rows["L3"][-1] == "better"
    assert rows["L0"][-1] in {"equivalent", "no difference shown"}
    assert rows["L3"][6] == "< 0.001"


def test_answers_that_are_no_json_count_in_the_precision_of_keys() -> None:
    document = _document(_run("a", [NONE] * 6), _run("a · object", [json.dumps({"x": 1})] * 6, wanted=OBJECT))
    rows = tables_of(document)["constrained-levels"].rows
    (pairs,) = {row[8] for row in rows if "recall" in str(row[1])}
    assert pairs == 6


def test_without_a_free_run_of_the_target_or_a_metric_with_levels_there_is_no_section() -> None:
    others = [_document(_run("a", MADE, wanted=OWN), _run("b", MADE, model="n")), _document(_run("a", MADE))]
    others.append(
        comparison_of(
            "e",
            "d",
            "DONE",
            [evidence(name="x", id="x"), evidence(name="y", id="y", spec=run_spec(response_format=OWN))],
        )
    )
    for document in others:
        assert not [section for section in document.sections if section.name == "constrained"]


def test_the_matrix_has_a_row_for_each_response_format() -> None:
    runs = [_run("a", FREE), _run("a · object", MADE, wanted=OBJECT), _run("a · own", MADE, wanted=OWN)]
    matrix = tables_of(_document(*runs))["matrix"]
    assert [row[:2] for row in matrix.rows] == [("m", "text"), ("m", "json_object"), ("m", "json_schema")]
    assert matrix.columns[1].title == "response format"
