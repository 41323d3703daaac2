"""Paired comparison: which answers are paired, which test is used, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars
import pytest

from vlmhyperbench.analysis.comparison import Measured, Verdict, adjust_together, compare_metrics, count_flips, pair
from vlmhyperbench.analysis.results import perfect_of
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _measured(
    values: Sequence[float | None],
    *,
    metric: Metric | None = None,
    clusters: Sequence[str] | None = None,
    **columns: list[float],
) -> Measured:
    metric = metric or ExactMatch()
    keys = [f"s{i}" for i in range(len(values))]
    frame = polars.DataFrame(
        {
            "key": keys,
            "repeat": [0] * len(values),
            "turn": [0] * len(values),
            "cluster": list(clusters or keys),
            "value": polars.Series(list(values), dtype=polars.Float64),
            **{f"stat.{name}": column for name, column in columns.items()},
        }
    )
    return Measured(
        key=metric.description.name,
        label=metric.description.title,
        definition="",
        description=metric.description,
        combine=metric.combine,
        frame=frame,
    )


def test_only_answers_that_both_runs_have_a_value_for_are_paired() -> None:
    first, second = _measured([1, 0, None]), _measured([1, None, 1])
    assert pair(first.frame, second.frame)["key"].to_list() == ["s0"]


def test_flips_count_what_broke_and_what_was_mended() -> None:
    flips = count_flips(_measured([1, 1, 1, 0, 0]), _measured([1, 0, 0, 1, 0]), perfect=1.0)
    assert (flips.both_right, flips.broke, flips.mended, flips.both_wrong, flips.pairs) == (1, 2, 1, 1, 5)


def test_a_clear_loss_is_called_worse_with_an_interval_that_excludes_zero() -> None:
    (delta,) = compare_metrics([_measured([1.0] * 40)], [_measured([1.0] * 20 + [0.0] * 20)])
    assert delta.difference == pytest.approx(-0.5)
    assert (delta.wins, delta.ties, delta.losses, delta.test) == (0, 20, 20, "mcnemar_exact")
    assert delta.high is not None
    assert delta.high < 0
    assert delta.verdict is Verdict.WORSE


def test_a_lower_error_rate_is_better() -> None:
    worse = _measured([0.5] * 30 + [0.4] * 30, metric=Cer(), edits=[5.0] * 60, length=[10.0] * 60, count=[1.0] * 60)
    better = _measured([0.0, 0.1] * 30, metric=Cer(), edits=[0.0, 1.0] * 30, length=[10.0] * 60, count=[1.0] * 60)
    (delta,) = compare_metrics([worse], [better])
    assert delta.difference == pytest.approx(0.05 - 0.5)
    assert delta.wins == 60
    assert delta.verdict is Verdict.BETTER


def test_a_metric_without_a_direction_has_neither_wins_nor_losses() -> None:
    first, second = _measured([1.0] * 40), _measured([1.0] * 20 + [0.0] * 20)
    neutral = replace(first.description, direction=None)
    (delta,) = compare_metrics([replace(first, description=neutral)], [replace(second, description=neutral)])
    assert (delta.verdict, delta.wins, delta.losses, delta.ties) == (Verdict.DIFFERS, None, None, 20)


def test_a_difference_within_chance_is_not_shown() -> None:
    (delta,) = compare_metrics([_measured([1, 0, 1, 0])], [_measured([1, 1, 0, 0])])
    assert delta.verdict is Verdict.NOT_SHOWN


def test_equal_answers_show_no_difference() -> None:
    (delta,) = compare_metrics([_measured([1, 0, 1])], [_measured([1, 0, 1])])
    assert (delta.difference, delta.verdict) == (0.0, Verdict.NOT_SHOWN)


def test_many_answers_show_equivalence_and_few_show_nothing() -> None:
    first, second = [1.0] * 400 + [0.0] * 400, [1.0] * 399 + [0.0] * 401
    (delta,) = compare_metrics([_measured(first)], [_measured(second)])
    assert delta.verdict is Verdict.EQUIVALENT
    assert delta.detectable == pytest.approx(0.0035, abs=0.0005)
    (delta,) = compare_metrics([_measured(first[398:402])], [_measured(second[398:402])])
    assert delta.verdict is Verdict.NOT_SHOWN
    assert delta.detectable is not None
    assert delta.detectable > 0.5


def test_an_equal_difference_in_every_unit_has_no_interval_and_is_decided_by_its_p_value() -> None:
    (delta,) = compare_metrics([_measured([0.5] * 9, metric=Anls())], [_measured([0.75] * 9, metric=Anls())])
    assert (delta.difference, delta.low, delta.verdict) == (0.25, None, Verdict.BETTER)


def test_a_certain_difference_below_the_minimum_is_too_small_to_matter() -> None:
    first = _measured([0.5, 0.7] * 100, metric=Anls())
    second = _measured([0.501, 0.7015] * 100, metric=Anls())
    (delta,) = compare_metrics([first], [second])
    assert delta.verdict is Verdict.TOO_SMALL


def test_samples_of_one_document_are_one_unit() -> None:
    clusters = ["page"] * 30 + ["other"] * 30
    first, second = _measured([1.0] * 60, clusters=clusters), _measured([1.0] * 30 + [0.0] * 30, clusters=clusters)
    (delta,) = compare_metrics([first], [second])
    assert (delta.test, delta.verdict) == ("permutation", Verdict.NOT_SHOWN)


def test_several_metrics_are_adjusted_together() -> None:
    right = [_measured([1.0] * 12), _measured([1.0] * 12, metric=Anls())]
    worse = [_measured([1.0] * 6 + [0.0] * 6), _measured([1.0] * 6 + [0.0] * 6, metric=Anls())]
    first, second = compare_metrics(right, worse)
    assert first.p_value is not None
    assert first.p_adjusted == pytest.approx(min(1.0, 2 * first.p_value))
    assert second.p_adjusted is not None


def test_runs_without_a_common_answer_or_metric_are_not_compared() -> None:
    (delta,) = compare_metrics([_measured([None])], [_measured([1.0])])
    assert (delta.pairs, delta.difference, delta.verdict) == (0, None, Verdict.NOT_COMPARABLE)
    assert compare_metrics([_measured([1.0])], [_measured([1.0], metric=Anls())]) == []


def test_a_pooled_value_that_is_undefined_is_not_compared() -> None:
    empty = _measured([0.0], metric=Cer(), edits=[0.0], length=[0.0], count=[0.0])
    (delta,) = compare_metrics([empty], [empty])
    assert (delta.pairs, delta.difference, delta.verdict) == (1, None, Verdict.NOT_COMPARABLE)


def test_statistics_that_only_one_run_has_are_0_in_the_other() -> None:
    def measured(answers: str) -> Measured:
        # The statistics count the answers `x` and `y`, and `x` is right.
        counted = {letter: [1.0, 1.0, 1.0] for letter in answers}
        frame = _measured([1.0, 1.0, 1.0], metric=Cer(), **counted).frame
        return Measured(
            key="x",
            label="share of x",
            definition="",
            description=Cer().description,
            combine=lambda sums: sums.get("x", 0.0) / (sums.get("x", 0.0) + sums.get("y", 0.0)),
            frame=frame,
        )

    (delta,) = compare_metrics([measured("x")], [measured("y")])
    assert (delta.baseline, delta.other, delta.difference) == (1.0, 0.0, -1.0)
    (other_way,) = compare_metrics([measured("y")], [measured("xy")])
    assert (other_way.baseline, other_way.other) == (0.0, 0.5)


def test_a_metric_without_a_direction_has_no_perfect_value() -> None:
    assert (perfect_of(Anls().description), perfect_of(Cer().description)) == (1.0, 0.0)
    assert perfect_of(replace(Anls().description, direction=None)) is None


def test_p_values_of_several_runs_are_adjusted_over_all_of_them() -> None:
    baseline = [_measured([0.0] * 6 + [1.0] * 34)]
    [alone] = compare_metrics(baseline, [_measured([1.0] * 40)])
    equal = compare_metrics(baseline, baseline)
    assert (alone.verdict, alone.tested) == (Verdict.BETTER, 1)
    together = adjust_together([[alone], equal, equal])
    assert together[0][0].p_adjusted == pytest.approx(3 * (alone.p_value or 0))
    assert (together[0][0].tested, together[0][0].verdict) == (3, Verdict.NOT_SHOWN)
    assert together[0][0].disagreement == "holm"
