"""The judges of a run: their verdicts, how far they agree with themselves and the first metric, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars

from vlmhyperbench.analysis.costs import Cost, cost_of
from vlmhyperbench.domain.judging import Judging, is_judge, judging_of
from vlmhyperbench.reports.document import Column, Section, Table, write_number
from vlmhyperbench.reports.sections.wording import listed, percent, plural, write_money
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric
from vlmhyperbench.summaries.records import JudgeUse

RIGHT = 0.5
"""Minimum value that counts as right if a judge is compared with another metric."""

UNJUDGED = "a judge could not be asked to the end, so none of its verdicts counts and its values are missing."


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of a judge and another metric on which answers are right."""

    answers: int
    same: float
    """Share of the answers with a value of both on which they agree."""
    kappa: float | None
    """Cohen's kappa; None if both call all answers right, or all wrong."""


def judges_of(runs: Sequence[RunEvidence]) -> list[Section]:
    """Return a section on judges for each run that has any."""
    return [
        replace(
            section,
            name=f"judges-{no}",
            title=f"Judges of {run.name}",
            blocks=tuple(
                replace(block, name=f"{block.name}-{no}") for block in section.blocks if isinstance(block, Table)
            ),
        )
        for no, run in enumerate(runs, 1)
        if (section := judges(run)) is not None
    ]


def judges(run: RunEvidence) -> Section | None:
    """Return the section on the judges of a run; None if it has none."""
    uses = [(judge, use) for judge in run.scored if is_judge(judge.spec) for use in run.judges if _is_of(use, judge)]
    if not uses:
        return None
    given, reused = sum(use.requests - use.failed for _, use in uses), sum(use.kept for _, use in uses)
    known = f", of which {write_number(reused, 0)} were known already" if reused else ""
    lead = (
        f"{listed([judge.label for judge, _ in uses])} gave {plural(given, 'verdict')}{known}. Verdicts are not "
        "answers of the run; its request counts and speeds do not include them."
    )
    tables = (_verdicts(run, uses), _costs(uses))
    return Section(name="judges", title="Judges", lead=lead, blocks=tables)


def agreement(judge: ScoredMetric, other: ScoredMetric) -> Agreement | None:
    """Compare a judge with another metric, answer by answer; None if they share no answer."""
    key = ["phase", "ordinal"]
    first, second = (_values(scored) for scored in (judge, other))
    both = first.join(second, on=key, how="inner", suffix="_other").select(
        (polars.col("value") >= RIGHT).alias("a"), (polars.col("value_other") >= RIGHT).alias("b")
    )
    if not both.height:
        return None
    same = float((both["a"] == both["b"]).sum()) / both.height
    a, b = float(both["a"].sum()) / both.height, float(both["b"].sum()) / both.height
    chance = a * b + (1 - a) * (1 - b)
    return Agreement(answers=both.height, same=same, kappa=None if chance == 1 else (same - chance) / (1 - chance))


def _values(scored: ScoredMetric) -> polars.DataFrame:
    whole = scored.measures.filter(polars.col("field").is_null() & polars.col("value").is_not_null())
    return whole.select("phase", "ordinal", "value")


def _is_of(use: JudgeUse, scored: ScoredMetric) -> bool:
    return use.metric == scored.spec.label


def _verdicts(run: RunEvidence, uses: list[tuple[ScoredMetric, JudgeUse]]) -> Table:
    first = next((judge for judge in run.scored if not is_judge(judge.spec)), None)
    return Table(
        name="judges-verdicts",
        title="Verdicts",
        columns=(
            Column(title="judge"),
            Column(title="asked of"),
            Column(title="verdicts", kind="number"),
            Column(title="answers without a verdict", kind="number"),
            Column(title="same in both orders", kind="number"),
            Column(title="same when repeated", kind="number"),
            Column(title=f"same as {first.label if first else 'the first metric'}", kind="number"),
            Column(title="kappa", kind="number"),
        ),
        rows=tuple(
            (
                judge.label,
                _who(judging_of(judge.spec)),
                use.requests - use.failed,
                judge.measures.filter((polars.col("outcome") == "unscored") & polars.col("field").is_null()).height,
                percent(_share(judge, "orders_agree", "orders")),
                percent(_share(judge, "repeats_agree", "repeats")),
                *_agrees(judge, first),
            )
            for judge, use in uses
        ),
        note=(
            "An answer has no value if its verdict cannot be read, or is readable in only one order. For the "
            f"comparison with a metric, an answer counts as right from a value of {RIGHT:g}."
        ),
    )


def _agrees(judge: ScoredMetric, first: ScoredMetric | None) -> tuple[str, str]:
    both = agreement(judge, first) if first is not None and _is_share(first) else None
    if both is None:
        return "–", "–"
    return percent(both.same), "–" if both.kappa is None else write_number(both.kappa, 2)


def _is_share(scored: ScoredMetric) -> bool:
    return scored.description.range == (0.0, 1.0) and scored.description.direction == "higher"


def _costs(uses: list[tuple[ScoredMetric, JudgeUse]]) -> Table:
    costs = {judge.label: _cost(judging_of(judge.spec), use) for judge, use in uses}
    unknown = {label: cost.unknown for label, cost in costs.items() if cost.unknown}
    return Table(
        name="judges-costs",
        title="Cost of judging",
        columns=(
            Column(title="judge"),
            Column(title="asked", kind="number"),
            Column(title="reused", kind="number"),
            Column(title="failed", kind="number"),
            Column(title="prompt tokens", kind="number"),
            Column(title="completion tokens", kind="number"),
            Column(title="sum of latencies, s", kind="number"),
            Column(title="cost", kind="number"),
        ),
        rows=tuple(
            (
                judge.label,
                use.requests - use.kept,
                use.kept,
                use.failed,
                use.prompt_tokens,
                use.completion_tokens,
                write_number(use.busy_s, 1),
                write_money(costs[judge.label]),
            )
            for judge, use in uses
        ),
        note="Tokens, latencies and cost are those of the requests of this run, without reused verdicts."
        + "".join(f" The cost of {label} is unknown: {why}." for label, why in unknown.items()),
    )


def _cost(judging: Judging, use: JudgeUse) -> Cost:
    return cost_of(judging.prices, use, unpriced=judging.unpriced)


def _who(judging: Judging) -> str:
    orders = "both orders" if judging.swap else "one order"
    return f"{judging.target.served_name} ({orders}, {plural(judging.decoding.n, 'time')})"


def _share(scored: ScoredMetric, part: str, whole: str) -> float | None:
    names = [f"stat.{part}", f"stat.{whole}"]
    if not set(names) <= set(scored.measures.columns):
        return None
    counted, total = scored.measures.select(names).sum().row(0)
    return counted / total if total else None
