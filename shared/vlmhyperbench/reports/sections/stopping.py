"""The outcome of a run's stop rule: after how many samples it was certain, and of what."""

from __future__ import annotations

from typing import Any

from vlmhyperbench.reports.document import Column, Section, Table, write_number
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.summary import RunSummary

_CLAIM = {
    ("better", "shown"): "better than {baseline} by more than {margin}",
    ("better", "refuted"): "not better than {baseline} by more than {margin}",
    ("worse", "shown"): "worse than {baseline} by more than {margin}",
    ("worse", "refuted"): "not worse than {baseline} by more than {margin}",
    ("not_worse", "shown"): "not worse than {baseline} by more than {margin}",
    ("not_worse", "refuted"): "worse than {baseline} by more than {margin}",
    ("equivalent", "shown"): "within {margin} of {baseline}",
    ("equivalent", "refuted"): "different from {baseline} by more than {margin}",
}

STOPPED = (
    "the run stopped early by its rule: its values are those of the samples that were asked, in random order; "
    "intervals and p-values, except the rule's own, assume a number of samples that does not depend on the answers."
)


def stop_section(summary: RunSummary) -> Section | None:
    """Return the section with the rule and its interval; None if the run has no rule."""
    outcome, rule = summary.stopping, summary.spec.stop
    if outcome is None or rule is None:
        return None
    row = (
        rule.label,
        str(outcome["baseline_name"]),
        str(outcome["state"]).replace("_", " "),
        _count(outcome["samples"]),
        _count(outcome["of"]),
        _count(outcome["unscored"]),
        f"{write_number(_number(outcome['low']), 3)} to {write_number(_number(outcome['high']), 3)}",
    )
    return Section(
        name="stopping",
        title="Stop rule",
        lead=say_stop(summary),
        blocks=(
            Table(
                name="stop-rule",
                title="",
                columns=(
                    Column(title="rule"),
                    Column(title="baseline"),
                    Column(title="verdict"),
                    Column(title="samples", kind="number"),
                    Column(title="of", kind="number"),
                    Column(title="unscored pairs", kind="number"),
                    Column(title=f"gain, {_exactly(1 - rule.alpha)} confidence sequence"),
                ),
                rows=(row,),
                note=(
                    "The interval is valid after every sample, however often it is evaluated; the gain is that over "
                    "the whole data set. Method: hedged betting, Waudby-Smith and Ramdas 2024."
                ),
            ),
        ),
    )


def say_stop(summary: RunSummary) -> str:
    """Return a sentence with the outcome of the rule; empty if the run has no rule."""
    outcome, rule = summary.stopping, summary.spec.stop
    if outcome is None or rule is None:
        return ""
    state, baseline = str(outcome["state"]), outcome["baseline_name"]
    if state == "no_baseline":
        return f"The stop rule had no effect: the answers of the baseline, {baseline}, were not available in time. "
    if state == "undecided":
        return f"The stop rule ({rule.label}) was never decided, so every sample was asked. "
    asked = summary.counts.rows // summary.spec.decoding.n
    claim = _CLAIM[rule.rule, state].format(baseline=baseline, margin=f"{rule.margin:g}")
    ended = (
        f"The run stopped after {plural(asked, 'sample')}."
        if summary.is_stopped
        else "By then every sample had been asked."
    )
    return (
        f"After {_count(outcome['samples'])} of {plural(_count(outcome['of']), 'sample')} the stop rule was decided: "
        f"on {rule.metric}, the run is {claim} (probability of a wrong decision at most {_exactly(rule.alpha)}). "
        f"{ended} "
    )


def _exactly(share: float) -> str:
    """Write a share as a percentage without rounding: 0.001 is 0.1 %, not 0 %."""
    return f"{100 * share:.6g}\u00a0%"


def _count(value: Any) -> int:
    return int(value)


def _number(value: Any) -> float:
    return float(value)
