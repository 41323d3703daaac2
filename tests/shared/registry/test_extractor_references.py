"""An extractor is resolved to one spec, however much of its params is written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, load
from tests.shared.reports.builders import run_spec
from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.registry.choices import EvaluationChoices, ExtractorChoice
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.resolution import resolve_rescoring


@pytest.fixture
def references(tmp_path: Path) -> References:
    return References(catalogue=load(tmp_path), plugins=Shelf())


def test_a_default_that_is_written_out_is_the_same_extractor(references: References) -> None:
    short = references.extractor("number", ("extractors", 0))
    written = references.extractor(ExtractorChoice(name="number:2", params={"which": "last"}), ("extractors", 1))
    other = references.extractor(ExtractorChoice(name="number", params={"which": "first"}), ("extractors", 2))
    assert short is not None
    assert other is not None
    assert short == written
    assert (short.label, short.params) == ("number@2", {})
    assert other.params == {"which": "first"}
    assert other.label != short.label


def test_a_schema_keeps_the_name_under_which_it_is_written(references: References) -> None:
    params = {"schema": {"type": "object"}, "path": "total"}
    spec = references.extractor(ExtractorChoice(name="json", params={**params, "schema": params["schema"]}), ("e",))
    assert spec is not None
    assert spec.params == params


def test_an_extractor_without_a_version_is_the_one_there_is_and_an_older_one_is_refused(references: References) -> None:
    found = [references.extractor(name, ("extractors", 0)) for name in ("text", "final_answer", "number", "choice")]
    assert [spec and spec.label for spec in found] == ["text@1", "final_answer@2", "number@2", "choice@2"]
    assert references.extractor("number:1", ("extractors", 1)) is None
    (problem,) = references.problems
    assert "no version 1" in problem.message
    assert problem.cure == "Write number:2."


def test_an_extractor_that_cannot_be_made_is_a_problem(references: References) -> None:
    assert references.extractor(ExtractorChoice(name="number", params={"decimal": ";"}), ("extractors", 0)) is None
    assert references.extractor("nummer", ("extractors", 1)) is None
    assert [problem.path for problem in references.problems] == [("extractors", 0), ("extractors", 1)]


def test_answers_of_an_old_run_are_read_by_the_versions_of_now(tmp_path: Path) -> None:
    old = run_spec(extractors=(ExtractorSpec(name="number", version=1, params={"which": "first"}),))
    new = resolve_rescoring(load(tmp_path), old, EvaluationChoices(on_invalid="zero"), plugins=Shelf())
    assert new.extractors == (ExtractorSpec(name="number", version=2, params={"which": "first"}),)
