"""Compare runs from their samples files, without a server: tables for readers, JSON for programs, checks for gates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from xml.etree import ElementTree

from pydantic import JsonValue

from vlmhyperbench.analysis.comparison import Delta, Flips, Measured, adjust_together, compare_metrics, count_flips
from vlmhyperbench.analysis.costs import Cost, why_costs_differ_in_kind
from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.analysis.gates import MEMORY, Check, check, is_met, number_of, two_kinds_of_memory
from vlmhyperbench.analysis.parity import Parity
from vlmhyperbench.analysis.parity import parity as compare_texts
from vlmhyperbench.analysis.results import perfect_of
from vlmhyperbench.domain.identity import may_be_paired, measured_apart
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.reports.document import Cell, Column, Section, Table, write_number
from vlmhyperbench.reports.samples import Samples
from vlmhyperbench.reports.sections.datasets import DataSets, data_sets_of
from vlmhyperbench.reports.sections.differences import delta_table, unpaired_sentence, why_they_disagree
from vlmhyperbench.reports.sections.parity import divergences, parity_sentence, parity_table
from vlmhyperbench.reports.sections.validity import INVALID
from vlmhyperbench.reports.sections.wording import listed, plural, write_money
from vlmhyperbench.scoring.metrics import NO_HOSTS, Hosts

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_MEASURE = "A run was interrupted, or timed in part: its speeds are not comparable."
_SPEEDS = {
    "latency_p50_ms": "latency p50, ms",
    "latency_p99_ms": "latency p99, ms",
    "ttft_p50_ms": "TTFT p50, ms",
    "output_tokens_per_s": "output tokens/s",
    "samples_per_s": "answers/s",
    "peak_memory_bytes": "peak memory, MiB",
}
_COSTS = {
    "cost_per_answer": "per answer",
    "cost_per_million_tokens": "per million tokens",
    "cost_total": "total",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run compared with the baseline."""

    baseline: Samples
    other: Samples
    data_sets: DataSets
    deltas: dict[str, Delta]
    """By the metric's name."""
    flips: Flips | None
    parity: Parity
    warnings: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    is_met: bool | None = None
    """Whether the gate's policy is met; None without a gate."""


def compare(
    baseline: Samples, other: Samples, *, policy: GatePolicy | None = None, hosts: Hosts = NO_HOSTS
) -> Comparison:
    """Pair two runs' answers, metric by metric, and check a policy.

    `hosts` are the environments of the metrics that need theirs (`Samples.combined_apart`).

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: a metric cannot be opened here.
        NotReady: the environment of a metric is not among the hosts.
    """
    is_pair = _may_be_paired(baseline, other)
    first, second = ([*run.measured(hosts).values()] if is_pair else [] for run in (baseline, other))
    deltas = {delta.key: delta for delta in compare_metrics(first, second)}
    texts = (run.answers() if is_pair else run.answers().clear() for run in (baseline, other))
    parity = compare_texts(*texts)
    checks: list[Check] = []
    if policy is not None:
        checks = check(policy, baseline=baseline.side, other=other.side, deltas=deltas, parity=parity)
    return Comparison(
        baseline=baseline,
        other=other,
        data_sets=data_sets_of(baseline, other),
        deltas=deltas,
        flips=_flips(first, second),
        parity=parity,
        warnings=tuple(_warnings(baseline, other, deltas)),
        checks=tuple(checks),
        is_met=None if policy is None else is_met(policy, checks),
    )


def adjust(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons of several runs with one baseline with p-values that are adjusted over all of them."""
    adjusted = adjust_together([[*comparison.deltas.values()] for comparison in comparisons])
    return [
        replace(comparison, deltas=dict(zip(comparison.deltas, deltas, strict=True)))
        for comparison, deltas in zip(comparisons, adjusted, strict=True)
    ]


def tables(comparison: Comparison) -> list[Table]:
    """Return the tables for a reader: differences, parity, speeds, costs, and the gate."""
    name = comparison.other.name
    known = [(name, delta) for delta in comparison.deltas.values() if delta.difference is not None]
    shown = [delta_table(known, is_named=False)] if known else []
    if comparison.parity.pairs:
        differing = divergences(name, comparison.parity)
        shown += [parity_table([(name, comparison.parity)]), *([differing] if differing else [])]
    shown.append(_speeds(comparison))
    shown += _costs(comparison)
    if comparison.is_met is not None:
        shown.append(_gate(comparison))
    return shown


def sections(comparisons: Sequence[Comparison]) -> list[Section]:
    """Return a section for each run, for Markdown."""
    return [
        Section(
            name=f"comparison-{no}",
            title=f"{comparison.other.name} against {comparison.baseline.name}",
            lead=" ".join([verdict(comparison), *comparison.warnings]),
            blocks=tuple(tables(comparison)),
        )
        for no, comparison in enumerate(comparisons, 1)
    ]


def verdict(comparison: Comparison) -> str:
    """Sum the comparison up in sentences, and begin with the data sets if they differ."""
    results = []
    if comparison.is_met is not None:
        results.append("The gate is met." if comparison.is_met else "The gate is NOT met.")
    primary = next(iter(comparison.deltas.values()), None)
    if primary is not None:
        results.append(f"{primary.label}: {primary.verdict}.")
    flips = comparison.flips
    if flips is not None:
        results.append(f"Of {plural(flips.pairs, 'answer')} {flips.broke} broke and {flips.mended} were mended.")
    parity = [parity_sentence(comparison.parity)] if comparison.parity.pairs else []
    sentences = [comparison.data_sets.sentence, *(results or ["The runs share no metric."]), *parity]
    return " ".join(sentence for sentence in sentences if sentence)


def rows(comparison: Comparison) -> dict[str, JsonValue]:
    """Return the whole comparison as JSON, for programs."""
    flips = comparison.flips
    return {
        "baseline": comparison.baseline.name,
        "other": comparison.other.name,
        "data_sets": asdict(comparison.data_sets),
        "metrics": {
            key: {
                **asdict(delta),
                "disagreement": delta.disagreement,
                "disagreement_reason": why_they_disagree(delta) or None,
            }
            for key, delta in comparison.deltas.items()
        },
        "flips": asdict(flips) if flips is not None else None,
        "parity": {**asdict(comparison.parity), "same": comparison.parity.same, "rescored": comparison.parity.rescored},
        "speeds": {name: {"baseline": before, "other": after} for name, before, after in _measured_speeds(comparison)},
        "costs": {name: {"baseline": before, "other": after} for name, before, after in _known_costs(comparison)},
        "costs_not_compared": why_costs_differ_in_kind(*_headlines(comparison)),
        "validity": {"baseline": _validity(comparison.baseline), "other": _validity(comparison.other)},
        "gate": None
        if comparison.is_met is None
        else {"met": comparison.is_met, "checks": [asdict(ruling) for ruling in comparison.checks]},
    }


def to_junit(comparisons: Sequence[Comparison], *, is_lenient: bool) -> bytes:
    """Write the checks as JUnit XML: a suite for each run, a case for each rule.

    `is_lenient` reports an inconclusive rule as skipped instead of failed.
    """
    root = ElementTree.Element("testsuites", name="vlmhyperbench gate")
    for comparison in comparisons:
        failed = [ruling for ruling in comparison.checks if _counts_as_failed(ruling, is_lenient=is_lenient)]
        skipped = [ruling for ruling in comparison.checks if ruling.status == "inconclusive" and ruling not in failed]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(comparison.other.name),
            tests=str(len(comparison.checks)),
            failures=str(len(failed)),
            errors="0",
            skipped=str(len(skipped)),
        )
        for ruling in comparison.checks:
            case = ElementTree.SubElement(
                suite, "testcase", name=_xml(ruling.rule), classname=_xml(comparison.other.name), time="0"
            )
            if ruling in failed:
                failure = ElementTree.SubElement(case, "failure", type=ruling.status, message=_xml(ruling.message))
                failure.text = _xml(ruling.message)
            elif ruling in skipped:
                ElementTree.SubElement(case, "skipped", message=_xml(ruling.message))
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _counts_as_failed(check: Check, *, is_lenient: bool) -> bool:
    return check.status == "failed" or (check.status == "inconclusive" and not is_lenient)


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _flips(first: Sequence[Measured], second: Sequence[Measured]) -> Flips | None:
    """Count flips by the first metric; None unless both runs have the same first metric and it has a perfect value."""
    if not first or not second or not first[0].is_same(second[0]):
        return None
    perfect = perfect_of(first[0].description)
    return None if perfect is None else count_flips(first[0], second[0], perfect=perfect)


def _warnings(baseline: Samples, other: Samples, deltas: dict[str, Delta]) -> Iterator[str]:
    if not _may_be_paired(baseline, other):
        yield (
            "The runs have different data sets, each with keys of its own, so no answers are paired. To pair an "
            "imported file with a run of a data set, import it with --dataset."
        )
    elif baseline.manifest_id != other.manifest_id:
        yield "The runs have different samples; samples that both have are paired by their keys."
    yield from (_degraded(run) for run in (baseline, other) if run.side.degraded)
    first, second = ({described["key"]: described for described in run.described()} for run in (baseline, other))
    missing = sorted(str(key) for key in {*first, *second} if key not in deltas)
    if missing and _may_be_paired(baseline, other):
        yield f"Not compared, because a run lacks the metric or defines it differently: {', '.join(missing)}."
    for run in (baseline, other):
        if run.side.is_stopped:
            yield f"{run.name} stopped early by its rule; intervals and p-values assume that it did not."
        if _validity(run) == "invalid":
            yield f"The speeds of {run.name} are {INVALID} as measurements; its report says why."
        if run.side.is_interrupted:
            yield f"{run.name} was interrupted, or timed in part: its speeds are not comparable."
    differing = _measured_apart(baseline, other)
    if differing:
        yield f"The speeds cannot be compared, because the runs differ in {listed(differing)}."
    yield from (unpaired_sentence(delta) for delta in deltas.values() if delta.lost)
    if any(first[key]["extractor"] != second[key]["extractor"] for key in deltas if key in second):
        yield "The answers of the two runs were read by different extractors."
    if any(first[key]["environment"] != second[key]["environment"] for key in deltas if key in second):
        yield "The metrics of the two runs were computed by different package versions."


def _degraded(run: Samples) -> str:
    return (
        f"{run.name} is degraded: a model was loaded with less than full quality, or left out, so that it fits "
        f"({', '.join(run.side.degraded)}). Do not rank it against runs that were not."
    )


def _validity(samples: Samples) -> str | None:
    """Return the validity of a run's speeds: `valid`, or why they are not comparable."""
    validity = samples.side.headline.get("validity")
    return validity if isinstance(validity, str) else None


def _measured_apart(baseline: Samples, other: Samples) -> list[str]:
    """Return the settings that differ, for which speeds are not compared; empty if a run has no speeds."""
    if _validity(baseline) is None or _validity(other) is None:
        return []
    return measured_apart(baseline.side.measurement, other.side.measurement)


def _may_be_paired(baseline: Samples, other: Samples) -> bool:
    first, second = (DatasetSpec.model_validate(run.side.spec.get("dataset")) for run in (baseline, other))
    return may_be_paired(first, second, (baseline.manifest_id, other.manifest_id))


def _measured_speeds(comparison: Comparison) -> list[tuple[str, float | None, float | None]]:
    before, after = _headlines(comparison)
    return [(name, number_of(before.get(name)), number_of(after.get(name))) for name in _SPEEDS]


def _headlines(comparison: Comparison) -> tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]]:
    return comparison.baseline.side.headline, comparison.other.side.headline


def _known_costs(comparison: Comparison) -> list[tuple[str, float | None, float | None]]:
    """Return the costs that at least one of the runs knows."""
    before, after = _headlines(comparison)
    costs = [(name, number_of(before.get(name)), number_of(after.get(name))) for name in _COSTS]
    return [(name, first, second) for name, first, second in costs if first is not None or second is not None]


def is_one_measurement(comparison: Comparison) -> bool:
    """Whether both runs are complete, valid and measured with equal settings: only then are their speeds compared."""
    sides = (comparison.baseline, comparison.other)
    is_void = any(samples.side.is_interrupted or _validity(samples) == "invalid" for samples in sides)
    return not is_void and not measured_apart(*(samples.side.measurement for samples in sides))


def _is_by_the_hour(samples: Samples) -> bool:
    prices = samples.side.spec.get("prices")
    return isinstance(prices, Mapping) and prices.get("per_hour") is not None


def _costs(comparison: Comparison) -> list[Table]:
    """Compare the costs in a table; empty if neither is known.

    A cost by the hour depends on the speed, and a total cost on the samples: both are compared only where speeds are.
    """
    known, headlines = _known_costs(comparison), _headlines(comparison)
    sides = (comparison.baseline, comparison.other)
    hourly = [samples for samples in sides if _is_by_the_hour(samples)]
    invalid = [samples.name for samples in hourly if _validity(samples) == "invalid"]
    is_measure = is_one_measurement(comparison)
    why = why_costs_differ_in_kind(*headlines)
    columns = (Column(title="cost"), *(Column(title=title, kind="number") for title in ("baseline", "other", "change")))
    rows = []
    for name, *amounts in known:
        before, after = amounts
        may_be_compared = is_measure or not (hourly or name == "cost_total")
        change = _change(before, after) if may_be_compared and not why else "–"
        written = (_money(amount, headline) for amount, headline in zip(amounts, headlines, strict=True))
        rows.append((_COSTS[name], *written, change))
    if not rows:
        return []
    note = why or ""
    if not why and not is_measure:
        withheld = "costs by the hour are" if hourly else "the total cost is"
        note = f"The speeds of the two runs are not compared, so {withheld} not compared either."
    if invalid:
        note = f"{INVALID} as measurements: the costs by the hour of {listed(invalid)}; their reports say why. {note}"
    title = f"Cost: {INVALID}" if invalid else "Cost"
    return [Table(name="costs", title=title, columns=columns, rows=tuple(rows), note=note.rstrip())]


def _change(before: float | None, after: float | None) -> str:
    """Write a relative change; a dash if a value is unknown or the baseline is 0."""
    return f"{round(after / before - 1, 2) + 0.0:+.0%}" if before and after is not None else "–"


def _money(amount: float | None, headline: Mapping[str, JsonValue]) -> str:
    return write_money(Cost(currency=str(headline.get("cost_currency"))), amount)


def _speeds(comparison: Comparison) -> Table:
    sides = (comparison.baseline, comparison.other)
    broken = any(samples.side.is_interrupted for samples in sides)
    invalid = [samples.name for samples in sides if _validity(samples) == "invalid"]
    differing = _measured_apart(*sides)
    is_one = is_one_measurement(comparison)
    of_memory = two_kinds_of_memory(*(samples.side.headline for samples in sides))
    compared: list[tuple[Cell, ...]] = []
    for name, before, after in _measured_speeds(comparison):
        is_measure = not of_memory if name == MEMORY else is_one
        change = _change(before, after) if is_measure else "–"
        unit = 2**20 if name == MEMORY else 1
        before, after = (None if value is None else value / unit for value in (before, after))
        compared.append((_SPEEDS[name], write_number(before, 1), write_number(after, 1), change))
    note = _NO_MEASURE if broken else "Each run was timed once."
    if differing:
        what = "no speed is" if of_memory else "only the memory is"
        note = f"The runs differ in {listed(differing)}, so {what} compared. {note}"
    if of_memory:
        note = f"{of_memory} {note}"
    if invalid:
        note = f"{INVALID} as measurements of speed: those of {listed(invalid)}; their reports say why. {note}"
    return Table(
        name="speeds",
        title=f"Speed: {INVALID}" if invalid else "Speed",
        columns=(
            Column(title="speed"),
            *(Column(title=title, kind="number") for title in ("baseline", "other", "change")),
        ),
        rows=tuple(compared),
        note=note,
    )


def _gate(comparison: Comparison) -> Table:
    return Table(
        name="gate",
        title="Gate",
        columns=(Column(title="rule"), Column(title="status"), Column(title="finding")),
        rows=tuple((ruling.rule, ruling.status, ruling.message) for ruling in comparison.checks),
    )
