"""What a report says of judges: who they are, how alike they judge, what it took."""

from __future__ import annotations

import json
from dataclasses import replace

import polars
import pytest

from tests.shared.domain.builders_of_jobs import JUDGING, judge_metric
from tests.shared.reports.builders import document_of, evidence, fact, metric_spec, run_spec
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.reports.document import Section, Table, write_cell
from vlmhyperbench.reports.sections.judging import agreement, judges, judges_of
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, ScoredMetric, name_metrics
from vlmhyperbench.summaries.records import JudgeUse
from vlmhyperbench_text_metrics import ExactMatch

USE = JudgeUse(
    metric="judged@v1",
    requests=8,
    kept=2,
    failed=1,
    busy_s=1.5,
    answers=5,
    prompt_tokens=600,
    completion_tokens=12,
    window_s=9.0,
)


def scored(spec_values: list[float | None], **changes: object) -> ScoredMetric:
    """A judge that gave these values to the answers, each in both orders; the first time it changed its mind."""
    spec = judge_metric(**changes)
    known = [value is not None for value in spec_values]
    measures = polars.DataFrame(
        {
            "phase": polars.Series([1] * len(spec_values), dtype=polars.Int32()),
            "ordinal": list(range(len(spec_values))),
            "field": polars.Series([None] * len(spec_values), dtype=polars.String()),
            "outcome": ["scored" if one else "unscored" for one in known],
            "value": polars.Series(spec_values, dtype=polars.Float64()),
            "stat.orders": [float(one) for one in known],
            "stat.orders_agree": [float(one and no > 0) for no, one in enumerate(known)],
            "stat.repeats": [0.0] * len(known),
            "stat.repeats_agree": [0.0] * len(known),
        }
    )
    opened = OpenedMetric(spec=spec, metric=open_metric(spec), environment="1" * 64, measures=measures)
    return name_metrics([opened])[0]


def judged(values: list[float | None], *, use: JudgeUse = USE, **changes: object) -> RunEvidence:
    rows = [fact(0, "yes", "yes"), fact(1, "no", "yes"), fact(2, "no", "yes"), fact(3, "yes", "yes")]
    plain = evidence(rows, metrics=(ExactMatch(),))
    one = scored(values, **changes)
    spec = run_spec(metrics=(ExactMatch(),)).model_copy(update={"metrics": (metric_spec(ExactMatch()), one.spec)})
    return evidence(rows, metrics=(ExactMatch(),), spec=spec, scored=[*plain.scored, one], judged=(use,))


def cells(run: RunEvidence) -> dict[str, str]:
    section = judges(run)
    assert section is not None
    tables = [block for block in section.blocks if isinstance(block, Table)]
    pairs = [pair for table in tables for pair in zip(table.columns, table.rows[0], strict=True)]
    return {column.title: write_cell(cell) for column, cell in pairs}


def costs_note(section: Section) -> str:
    return next(
        block.note for block in section.blocks if isinstance(block, Table) and block.name.startswith("judges-costs")
    )


def test_verdicts_are_laid_beside_the_first_metric() -> None:
    found = cells(judged([0.5, 0.0, 1.0, None]))
    assert (found["verdicts"], found["answers without a verdict"]) == ("7", "1")
    assert found["asked of"] == "wise (both orders, 1 time)"
    assert found["same in both orders"] == "66.7\u00a0%"
    assert found["same when repeated"] == "–"
    assert found["same as Exact match"] == "66.7\u00a0%"
    assert found["kappa"] == "0.40"


def test_what_judging_took_is_said_with_its_cost() -> None:
    prices = Prices(currency="EUR", prompt_per_million=3.0, completion_per_million=100.0)
    found = cells(judged([1.0] * 4, prices=prices))
    assert (found["asked here"], found["known already"], found["failed"]) == ("6", "2", "1")
    assert (found["prompt tokens"], found["completion tokens"], found["seconds of answering"]) == ("600", "12", "1.5")
    assert found["cost"] == "0.003000\u00a0EUR"
    assert cells(judged([1.0] * 4))["cost"] == "unknown"
    # 9 s at 40 an hour
    assert cells(judged([1.0] * 4, prices=Prices(per_hour=40.0)))["cost"] == "0.1000\u00a0USD"


@pytest.mark.parametrize("unknown", [("prompt_tokens", "completion_tokens"), ("completion_tokens",)])
def test_a_judge_that_counts_no_tokens_costs_nobody_knows_what_and_not_nothing(unknown: tuple[str, ...]) -> None:
    prices = Prices(prompt_per_million=2.5, completion_per_million=10.0)
    run = judged([1.0] * 4, prices=prices, use=replace(USE, **dict.fromkeys(unknown)))
    found = cells(run)
    assert [found["prompt tokens"], found["completion tokens"]].count("–") == len(unknown)
    assert found["cost"] == "unknown"
    section = judges(run)
    assert section is not None
    assert "is unknown: not every answer came with a count" in costs_note(section)
    assert "unknown" not in costs_note(judges_of([judged([1.0] * 4, prices=prices)])[0])


def test_the_cost_of_a_judge_without_prices_is_unknown_for_the_reason_that_was_pinned() -> None:
    section = judges(judged([1.0] * 4, unpriced="nobody wrote them"))
    assert section is not None
    assert "nobody wrote them" in costs_note(section)


def test_machines_read_null_where_the_tokens_of_a_judge_are_unknown() -> None:
    run = judged([1.0] * 4, use=replace(USE, prompt_tokens=None, completion_tokens=None))
    data = json.loads(json.dumps(document_of(run).data))
    [use] = data[run.id]["judges"]
    assert (use["requests"], use["prompt_tokens"], use["completion_tokens"]) == (8, None, None)


def test_judges_that_call_everything_alike_have_no_kappa() -> None:
    all_right = scored([1.0, 1.0])
    found = agreement(all_right, all_right)
    assert found is not None
    assert (found.answers, found.same, found.kappa) == (2, 1.0, None)
    assert agreement(all_right, scored([None, None])) is None


def test_a_run_without_judges_has_no_such_section() -> None:
    assert judges(evidence()) is None


def test_the_address_of_a_judge_hides_what_could_be_secret() -> None:
    target = EndpointTarget(endpoint="https://me:key@judge.example/v1?token=abc", model_name="wise")
    spec = run_spec().model_copy(update={"metrics": (judge_metric(target=target),)})
    shown = public_spec(spec).metrics[0].params["target"]
    assert isinstance(shown, dict)
    assert shown["endpoint"] == "judge.example/v1"
    assert public_spec(run_spec(metrics=(ExactMatch(),))) == run_spec(metrics=(ExactMatch(),))


@pytest.mark.parametrize("swap", [True, False])
def test_the_number_of_orders_is_said(swap: bool) -> None:
    assert JUDGING.model_copy(update={"swap": swap}).orders[0] == "reference_first"
    assert ("both orders" in cells(judged([1.0] * 4, swap=swap))["asked of"]) is swap
