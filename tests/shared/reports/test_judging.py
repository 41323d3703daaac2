"""Judges in a report: who they are, how far they agree, what asking them took."""

from __future__ import annotations

import json
from dataclasses import replace

import polars
import pytest

from tests.shared.domain.builders_of_jobs import JUDGING, judge_metric
from tests.shared.reports.builders import document_of, evidence, fact, metric_spec, run_spec
from tests.shared.reports.reading import tables_of, values_of, words_of
from tests.support.wording import Wording
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.reports.document import Section, Table
from vlmhyperbench.reports.sections.judging import agreement, judges, judges_of
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, ScoredMetric, name_metrics
from vlmhyperbench.summaries.records import JudgeUse
from vlmhyperbench_text_metrics.exact_match import ExactMatch

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


def scored(values: list[float | None], **changes: object) -> ScoredMetric:
    """Make a judge that gave these values to the answers, each in both orders; on the first the orders disagree."""
    spec = judge_metric(**changes)
    known = [value is not None for value in values]
    measures = polars.DataFrame(
        {
            "phase": polars.Series([1] * len(values), dtype=polars.Int32()),
            "ordinal": list(range(len(values))),
            "field": polars.Series([None] * len(values), dtype=polars.String()),
            "outcome": ["scored" if is_known else "unscored" for is_known in known],
            "value": polars.Series(values, dtype=polars.Float64()),
            "stat.orders": [float(is_known) for is_known in known],
            "stat.orders_agree": [float(is_known and no > 0) for no, is_known in enumerate(known)],
            "stat.repeats": [0.0] * len(known),
            "stat.repeats_agree": [0.0] * len(known),
        }
    )
    opened = OpenedMetric(spec=spec, metric=open_metric(spec), environment="1" * 64, measures=measures)
    return name_metrics([opened])[0]


def judged(values: list[float | None], *, use: JudgeUse = USE, **changes: object) -> RunEvidence:
    rows = [fact(0, "yes", "yes"), fact(1, "no", "yes"), fact(2, "no", "yes"), fact(3, "yes", "yes")]
    plain = evidence(rows, metrics=(ExactMatch(),))
    judge = scored(values, **changes)
    spec = run_spec(metrics=(ExactMatch(),)).model_copy(update={"metrics": (metric_spec(ExactMatch()), judge.spec)})
    return evidence(rows, metrics=(ExactMatch(),), spec=spec, scored=[*plain.scored, judge], judges=(use,))


def section(run: RunEvidence) -> Section:
    found = judges(run)
    assert found is not None
    return found


def costs(run: RunEvidence) -> Table:
    return tables_of(section(run))["judges-costs"]


def test_verdicts_are_compared_with_the_first_metric(wording: Wording) -> None:
    judging = section(judged([0.5, 0.0, 1.0, None]))
    verdicts = tables_of(judging)["judges-verdicts"]
    assert [row[1:] for row in values_of(verdicts)] == [("7", "1", "66.7 %", "–", "66.7 %", "0.40")]
    wording(judging.lead)
    wording(words_of(verdicts))


def test_the_cost_of_judging_is_shown_with_its_tokens_and_its_time(wording: Wording) -> None:
    prices = Prices(currency="EUR", prompt_per_million=3.0, completion_per_million=100.0)
    table = costs(judged([1.0] * 4, prices=prices))
    assert values_of(table) == [("6", "2", "1", "600", "12", "1.5", "0.003000 EUR")]
    wording(words_of(table))
    assert values_of(costs(judged([1.0] * 4)))[0][-1] == "unknown"
    # 9 s at 40 an hour
    assert values_of(costs(judged([1.0] * 4, prices=Prices(per_hour=40.0))))[0][-1] == "0.1000 USD"


@pytest.mark.parametrize("unknown", [("prompt_tokens", "completion_tokens"), ("completion_tokens",)])
def test_the_cost_of_a_judge_that_counts_no_tokens_is_unknown(unknown: tuple[str, ...], wording: Wording) -> None:
    prices = Prices(prompt_per_million=2.5, completion_per_million=10.0)
    table = costs(judged([1.0] * 4, prices=prices, use=replace(USE, **dict.fromkeys(unknown))))
    assert values_of(table)[0][3:5].count("–") == len(unknown)
    assert values_of(table)[0][-1] == "unknown"
    wording(table.note)


def test_the_judges_of_several_runs_have_a_section_each() -> None:
    plain, priced = evidence(), judged([1.0] * 4, prices=Prices(per_hour=40.0))
    sections = judges_of([priced, plain, priced])
    assert [part.name for part in sections] == ["judges-1", "judges-3"]
    assert list(tables_of(sections[1])) == ["judges-verdicts-3", "judges-costs-3"]


def test_the_cost_of_a_judge_without_prices_is_unknown_for_the_reason_that_was_pinned(wording: Wording) -> None:
    wording(costs(judged([1.0] * 4, unpriced="no list has its prices")).note)


def test_the_json_has_null_where_the_tokens_of_a_judge_are_unknown() -> None:
    run = judged([1.0] * 4, use=replace(USE, prompt_tokens=None, completion_tokens=None))
    runs = json.loads(json.dumps(document_of(run).runs))
    [use] = runs[run.id]["judges"]
    assert (use["requests"], use["prompt_tokens"], use["completion_tokens"]) == (8, None, None)


def test_judges_that_call_all_answers_right_have_no_kappa() -> None:
    all_right = scored([1.0, 1.0])
    both = agreement(all_right, all_right)
    assert both is not None
    assert (both.answers, both.same, both.kappa) == (2, 1.0, None)
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
def test_the_table_shows_whether_a_judge_is_asked_in_both_orders(swap: bool, wording: Wording) -> None:
    assert JUDGING.model_copy(update={"swap": swap}).orders[0] == "reference_first"
    wording(tables_of(section(judged([1.0] * 4, swap=swap)))["judges-verdicts"].rows[0][1])
