"""The table of all samples of a report: every sample within the bounds, with its outcome."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import comparison_of, document_of, evidence, fact
from tests.shared.reports.counting_metrics import Fields
from tests.shared.reports.reading import section_of
from tests.support.wording import Wording
from vlmhyperbench.analysis.mistakes import Mistake
from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.reports.document import Document, SampleTable
from vlmhyperbench.reports.sections import sample_table
from vlmhyperbench.reports.writers.html import to_html
from vlmhyperbench.reports.writers.plots import to_svg
from vlmhyperbench_sdk.errors import InvalidInput


def _table(document: Document) -> SampleTable:
    (table,) = section_of(document, "samples").blocks
    assert isinstance(table, SampleTable)
    return table


def test_every_answer_is_there_in_its_order_with_its_outcome() -> None:
    rows = [
        fact(0, "yes", "yes"),
        fact(1, "yes sir", "yes", finish_reason="length"),
        fact(2, None, "yes"),
        fact(3, "", "yes", latency_ns=None, repeat=2, turn=1),
    ]
    table = _table(document_of(evidence(rows)))
    assert (table.total, table.runs, table.key) == (4, ("tiny",), ("s0", "s1", "s2", "s3"))
    assert table.outcome == ("right", Mistake.CUT_OFF, "failed: connection_lost", Mistake.NOTHING)
    assert table.note_of == ("", Mistake.CUT_OFF, "connection_lost", "repeat 2; turn 1")
    assert table.answer == ("yes", "yes sir", None, "")
    assert table.references == (("yes",),) * 4
    assert table.latency_ms == (20.0, 21.0, 22.0, None)
    assert table.tokens == (11,) * 4
    assert (table.groups, table.group_values[1]) == (("document class", "question type"), ("ticket", "field"))
    assert table.metrics[0] == "Exact match"
    assert [scores[0] for scores in table.scores] == [1.0, 0.0, None, 0.0]


def test_the_text_that_was_read_and_the_score_of_each_field_are_shown() -> None:
    run = evidence(
        [fact(0, "total=1;date=9", "total=1;date=2"), fact(1, 'So: {"a": 1}', "total=1"), fact(2, "{}", "total=1")],
        metrics=[Fields()],
    )
    (scored,) = run.scored
    whole = scored.measures.head(2)
    fields = whole.with_columns(field=polars.Series(["total", "date"]), ordinal=polars.lit(0, whole["ordinal"].dtype))
    parts = polars.concat([whole, fields.with_columns(value=polars.Series([1.0, None]))])
    assert _table(document_of(replace(run, scored=[replace(scored, measures=parts)]))).fields == (
        "total 1.0, date –",
        None,
        None,
    )
    spec = run.spec.model_copy(update={"extractors": (ExtractorSpec(name="json_repaired"),)})
    parsed = _table(document_of(replace(run, spec=spec))).parsed
    assert parsed[0].startswith("cannot be read: ")
    assert json.loads(str(parsed[1])) == {"a": 1}
    assert parsed[2] is None, "it is the answer itself"


def test_beyond_the_bound_mistakes_come_first_and_the_note_says_where_the_rest_is(
    monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    run = evidence([fact(i, "no" if i in (3, 5) else "yes", "yes") for i in range(8)])
    monkeypatch.setattr(sample_table, "MAX_SAMPLES", 4)
    table = _table(document_of(run))
    assert table.key == ("s0", "s1", "s3", "s5")
    assert table.total == 8
    wording(table.note)


def test_long_texts_are_cut_and_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    run = evidence([fact(i, "я" * 1000, "yes") for i in range(4)])
    answer = _table(document_of(run)).answer[0]
    assert answer == "я" * 600 + "… (400 more characters)"
    monkeypatch.setattr(sample_table, "MAX_BYTES", 8000)
    assert _table(document_of(run)).key == ("s0", "s1", "s2")


def test_runs_of_a_comparison_share_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [evidence([fact(i, "yes", "yes") for i in range(4)], name=name, id=name) for name in "ab"]
    monkeypatch.setattr(sample_table, "MAX_SAMPLES", 6)
    table = _table(comparison_of("e", "demo", "DONE", runs))
    assert (table.runs, table.run) == (("a", "b"), (0, 0, 0, 1, 1, 1))
    assert table.outcome == ("right",) * 6


def test_a_run_without_metrics_or_groups_has_its_samples_and_one_without_answers_has_none() -> None:
    run = evidence([fact(0, "yes", "yes")], metrics=[])
    bare = replace(run, facts=run.facts.drop("group.doc_class", "group.question_type"))
    table = _table(document_of(bare))
    assert (table.outcome, table.scores, table.group_values) == (("not scored",), ((),), ((),))
    empty = replace(run, facts=run.facts.clear())
    assert section_of(document_of(empty), "samples").blocks == ()
    assert section_of(comparison_of("e", "none", "DONE", []), "samples").blocks == ()


def test_the_page_holds_every_sample_packed() -> None:
    document = document_of(evidence([fact(i, "\0<script>", "yes") for i in range(40)]))
    drawings = {figure.name: to_svg(figure) for figure in document.figures}
    page = to_html(document, drawings=drawings, thumbnails={}).decode()
    packed = re.search(r'<script type="application/gzip" id="table">([^<]*)</script>', page)
    assert packed is not None
    (table,) = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    assert table["key"] == [f"s{i}" for i in range(40)]
    assert table["answer"] == ["\0<script>"] * 40


def test_pages_that_only_samples_show_are_named_once_after_those_of_cases() -> None:
    rows = [fact(i, "no" if i == 3 else "yes", "yes", images=[f"{i // 2:064x}"]) for i in range(6)]
    document = document_of(evidence(rows))
    assert document.images == (f"{1:064x}",)
    assert document.further_images == (f"{0:064x}", f"{2:064x}")


def test_columns_of_different_lengths_are_refused() -> None:
    table = _table(document_of(evidence([fact(0, "yes", "yes")])))
    for fault in ({"key": ()}, {"scores": ((),)}, {"group_values": (("a",),)}, {"run": (1,)}):
        with pytest.raises(InvalidInput):
            replace(table, **fault)
