"""The verdict: sentences on quality, speed and failures, made from the numbers of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.domain.identity import is_declared, measured_apart
from vlmhyperbench.reports.document import write_number
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.differences import Paired, why_they_disagree
from vlmhyperbench.reports.sections.errors import say_most_frequent, say_why_failed
from vlmhyperbench.reports.sections.quality import Quality, by_column, digits_of, overall
from vlmhyperbench.reports.sections.stopping import say_stop
from vlmhyperbench.reports.sections.times import why_no_measure
from vlmhyperbench.reports.sections.validity import INVALID, reasons_of
from vlmhyperbench.reports.sections.wording import (
    group_title,
    in_sentence,
    listed,
    milliseconds,
    percent,
    plural,
    upper_first,
)
from vlmhyperbench.summaries.headline import target_of
from vlmhyperbench.summaries.summary import RunSummary

MAX_NAMED = 3
"""Maximum number of runs in the verdict; the tables show all."""
MIN_PATTERN = 3
"""Minimum number of flips in a group for the group to be named."""
SAME_SPEED = 0.05
"""Relative difference of two medians that occurs between repeats of the same run, because each is timed once."""


def run_verdict(summary: RunSummary, mistakes: Mapping[str, int]) -> tuple[str, str, str]:
    """Say how good and how fast a run is and where it fails; an incomplete score begins with that.

    `mistakes` counts the kinds of wrong answers.
    """
    quality = overall(summary)
    return (
        _say_declared(summary) + say_stop(summary) + incomplete(summary) + _how_good(summary, quality),
        _how_fast(summary),
        _where_it_fails(summary, quality, mistakes),
    )


def _say_declared(run: RunSummary) -> str:
    is_any = any(is_declared(claim.machine) for claim in run.generating)
    return "The devices were only declared: no hardware stands behind them. " if is_any else ""


def comparison_verdict(
    paired: Sequence[Paired], *, flips: Sequence[cases.Flip], gaps: str = ""
) -> tuple[str, str, str]:
    """Say what differs from the baselines in quality, in speed and in single answers.

    `gaps` says which runs have incomplete scores (`incomplete`).
    """
    if not paired:
        reason = "No two runs have the same data set, so no runs are compared."
        return (gaps + reason, "Speeds are not compared.", "No answers are compared.")
    named = paired[:MAX_NAMED]
    return (
        "".join(say_stop(pair.run.summary) for pair in named) + gaps + " ".join(map(_difference, named)),
        _speeds(named),
        _flips(named, flips),
    )


def incomplete(summary: RunSummary, *, name: str = "") -> str:
    """Say how many requests have no score by the primary metric, and its bounds; empty for a complete score."""
    quality, counts = overall(summary), summary.counts
    if not quality or quality[0].value is None or quality[0].n == counts.requested:
        return ""
    first, digits = quality[0], digits_of(quality[0].identity.description)
    of = f" of {name}" if name else ""
    sentence = (
        f"Incomplete: {plural(first.n, 'answer')}{of} of {write_number(counts.requested, 0)} requested have a score"
    )
    low, high = first.score.lower, first.score.upper
    if counts.missing or low is None or high is None:
        return f"{sentence}. "
    reach = f"{write_number(low, digits)} and {write_number(high, digits)}"
    return f"{sentence}; with the others wrong or right, {in_sentence(first.label)} would lie between {reach}. "


def _how_good(summary: RunSummary, quality: Sequence[Quality]) -> str:
    target = target_of(summary.spec)
    if why := say_why_failed(summary):
        return f"{target} has {why}"
    if not quality or quality[0].value is None:
        return f"{target} has no score: none of its answers could be scored."
    sentence = f"{target} {_value_in_words(quality[0])}"
    more = [f"{in_sentence(other.label)} is {_number(other)}" for other in quality[1:3] if other.value is not None]
    return f"{sentence}; {listed(more)}." if more else f"{sentence}."


def _value_in_words(quality: Quality) -> str:
    is_share = quality.identity.description.proportion
    between = ""
    if quality.low is not None and quality.high is not None:
        if is_share:
            between = f" (95 % interval {percent(quality.low)} to {percent(quality.high)})"
        else:
            digits = digits_of(quality.identity.description)
            between = f" (95 % interval {write_number(quality.low, digits)} to {write_number(quality.high, digits)})"
    if is_share:
        asked = plural(quality.n, "question")
        return f"gives the right answer to {percent(quality.value)} of {asked} by {in_sentence(quality.label)}{between}"
    return f"reaches {in_sentence(quality.label)} {_number(quality)} over {plural(quality.n, 'answer')}{between}"


def _how_fast(summary: RunSummary) -> str:
    performance = summary.performance
    latency, first = performance.times.get("latency_ms"), performance.times.get("ttft_user_ms")
    if latency is None:
        return "No request of this run was timed, so its speed is unknown."
    times = f"half of its answers took at most {milliseconds(latency.p50)}, 99 % at most {milliseconds(latency.p99)}"
    reasons = reasons_of(performance)
    invalid = f"{INVALID} as a measurement of speed, because {reasons}: " if reasons else ""
    sentence = upper_first(invalid + times)
    if first is not None:
        sentence += f", and the median time to the first token was {milliseconds(first.p50)}"
    if performance.samples_per_s is not None:
        rates = [f"{write_number(performance.samples_per_s, 1)} answers"]
        if performance.output_tokens_per_s is not None:
            rates.append(f"{write_number(performance.output_tokens_per_s, 0)} output tokens")
        sentence += f"; {summary.spec.scenario.in_words} gave {listed(rates)} per second"
    return f"{sentence}. {why_no_measure(performance)}".rstrip()


def _where_it_fails(summary: RunSummary, quality: Sequence[Quality], mistakes: Mapping[str, int]) -> str:
    clauses, counts = [], summary.counts
    groups = by_column(summary).items()
    weakest = [name for column, rows in groups if (name := _weakest(column, rows, quality)) is not None]
    if weakest:
        clauses.append(f"it is weakest on {listed(weakest[:2])}")
    total = sum(mistakes.values())
    if total:
        kind, count = next(iter(mistakes.items()))
        which = "the only wrong answer is" if total == 1 else f"{count} of {plural(total, 'wrong answer')} are"
        clauses.append(f"{which} of the kind ‘{kind}’")
    elif quality and quality[0].value is not None and quality[0].identity.perfect is not None:
        clauses.append("no answer was wrong")
    failed = [
        plural(number, noun, nouns)
        for number, noun, nouns in (
            (counts.model_failures, "request failed because of the model", "requests failed because of the model"),
            (
                counts.infrastructure_failures,
                "request failed because of the infrastructure",
                "requests failed because of the infrastructure",
            ),
            (counts.missing, "request was never made", "requests were never made"),
        )
        if number
    ]
    clauses.append(listed(failed) if failed else "no request failed")
    if error := say_most_frequent(summary):
        clauses.append(error)
    if counts.truncated:
        clauses.append(f"{plural(counts.truncated, 'answer')} ended at the token limit")
    return upper_first("; ".join(clauses)) + "."


def _weakest(column: str, rows: Sequence[Quality], quality: Sequence[Quality]) -> str | None:
    if not quality:
        return None
    known = [row for row in rows if row.label == quality[0].label and row.value is not None and row.n >= 5]
    direction = quality[0].identity.description.direction
    if len({row.value for row in known}) < 2 or direction is None:
        return None
    worst = min(
        known, key=lambda row: ((row.value or 0.0) if direction == "higher" else -(row.value or 0.0), row.group)
    )
    return f"the {group_title(column)} ‘{worst.group[0]}’ ({_number(worst)}, n\u00a0=\u00a0{worst.n})"


def _number(quality: Quality) -> str:
    description = quality.identity.description
    return percent(quality.value) if description.proportion else write_number(quality.value, digits_of(description))


def _difference(pair: Paired) -> str:
    baseline, other = pair.baseline, pair.run
    if not pair.deltas:
        return f"{other.name} and {baseline.name} share no metric of one definition."
    first = pair.deltas[0]
    if first.difference is None:
        return f"{other.name} cannot be paired with {baseline.name}."
    between = (
        f"95 % interval {write_number(first.low)} to {write_number(first.high)}, "
        if first.low is not None and first.high is not None
        else ""
    )
    how = {
        "better": "is better than",
        "differs": "differs from",
        "worse": "is worse than",
        "too small to matter": "has no relevant difference from",
        "equivalent": "is equivalent to",
        "no difference shown": "does not differ significantly from",
        "not comparable": "cannot be compared with",
    }[first.verdict]
    sign = "+" if first.difference > 0 else ""
    adjusted = f", {_p(first.p_adjusted)} after Holm for {first.tested} tests" if first.tested > 1 else ""
    why = why_they_disagree(first)
    return (
        f"{other.name} {how} {baseline.name} in {in_sentence(first.label)}: {write_number(first.other)} against "
        f"{write_number(first.baseline)}, a difference of {sign}{write_number(first.difference)} ({between}"
        f"{plural(first.pairs, 'pair')}, {_p(first.p_value)}{adjusted}){f'; {why}' if why else ''}."
    )


def _p(value: float | None) -> str:
    return "p unknown" if value is None else "p < 0.001" if value < 0.001 else f"p = {write_number(value)}"


def _speeds(paired: Sequence[Paired]) -> str:
    both = (run.summary for pair in paired for run in (pair.baseline, pair.run))
    runs = {summary.id: summary for summary in both}.values()
    broken = [summary.name for summary in runs if summary.performance.is_no_measure]
    if broken:
        was = "was" if len(broken) == 1 else "were"
        return f"Speeds are not compared, because {listed(broken)} {was} interrupted, retuned, or timed in part."
    clauses = []
    for pair in paired:
        baseline, other = pair.baseline.summary, pair.run.summary
        base, theirs = (summary.performance.times.get("latency_ms") for summary in (baseline, other))
        if base is None or theirs is None or not base.p50 or theirs.p50 is None:
            continue
        differing = measured_apart(baseline.measurement, other.measurement)
        if differing:
            clauses.append(
                f"{other.name} and {baseline.name} are not compared by speed: they differ in {listed(differing)}"
            )
            continue
        change = theirs.p50 / base.p50 - 1
        how = "about as fast"
        if abs(change) >= SAME_SPEED:
            how = f"{percent(abs(change), digits=0)} {'slower' if change > 0 else 'faster'}"
        clauses.append(
            f"{other.name} is {how} at the median ({milliseconds(theirs.p50)} against {milliseconds(base.p50)}; "
            f"p99 {milliseconds(theirs.p99)} against {milliseconds(base.p99)})"
        )
    invalid = [summary.name for summary in runs if summary.performance.is_invalid]
    if clauses and invalid:
        clauses[0] = f"{INVALID} as measurements are the speeds of {listed(invalid)}: {clauses[0]}"
    return f"{'; '.join(clauses)}." if clauses else "Speeds are not compared, because a run was not timed."


def _flips(paired: Sequence[Paired], flips: Sequence[cases.Flip]) -> str:
    clauses = [
        f"from {pair.baseline.name} to {pair.run.name}, {counted.broke} of {plural(counted.pairs, 'answer')} broke and "
        f"{counted.mended} were mended"
        for pair in paired
        if (counted := pair.flips) is not None and counted.pairs
    ]
    if not clauses:
        return "No answers could be paired, so flips are unknown."
    largest = cases.most_flipped(flips, paired[0].baseline.summary.group_columns)
    if largest is not None and largest[2] >= MIN_PATTERN:
        column, value, number = largest
        clauses.append(f"the {group_title(column)} with the largest number of flips, {number}, is ‘{value}’")
    return f"{upper_first('; '.join(clauses))}."
