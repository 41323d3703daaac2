"""Compare and rank runs by their stored per-sample scores: the same functions as `vlmhyperbench compare`.

polars is imported when a comparison is asked for, so that the API starts without it. Nothing here needs scipy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.domain.identity import differences
from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.scoring.metrics import NO_HOSTS, open_stored
from vlmhyperbench.wire.comparisons import (
    ComparedRun,
    ComparedSide,
    ConfigurationDifference,
    FlipCounts,
    GateCheck,
    MetricDelta,
    SpeedDelta,
)
from vlmhyperbench_api.compared_files import ComparedFile

if TYPE_CHECKING:
    from vlmhyperbench.analysis.comparison import Measured
    from vlmhyperbench.analysis.ranking import Ranking
    from vlmhyperbench.reports.comparing import Comparison
    from vlmhyperbench.reports.samples import Samples

MAX_DIFFERENCES = 200
_MEMORY = "peak_memory_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A run's samples, with what cannot be compared here."""

    samples: Samples
    left_out: tuple[str, ...]


def compare_files(
    baseline: ComparedFile, others: Sequence[ComparedFile], policy: GatePolicy | None
) -> list[ComparedRun]:
    """Compare runs with a baseline; p-values are adjusted over all of them.

    Raises:
        InvalidInput: a samples file is of another version.
    """
    from vlmhyperbench.reports import comparing

    first, opened = _open(baseline), [_open(other) for other in others]
    compared = comparing.adjust([comparing.compare(first.samples, second.samples, policy=policy) for second in opened])
    return [
        _compared(baseline, first, other, second, comparison)
        for other, second, comparison in zip(others, opened, compared, strict=True)
    ]


def rank_files(
    files: Sequence[ComparedFile], metric: str, direction: Literal["higher", "lower"]
) -> tuple[dict[str, tuple[int, int]], Ranking | None]:
    """Return the rank interval of each run that has the first run's metric, by its id."""
    from vlmhyperbench.analysis.ranking import rank_measured

    measured: list[Measured] = []
    ids: list[str] = []
    for file in files:
        own = _open(file).samples.measured()
        if metric in own and (not measured or own[metric].is_same(measured[0])):
            measured.append(own[metric])
            ids.append(str(file.run.id))
    ranking = rank_measured(measured, direction=direction)
    if ranking is None:
        return {}, None
    return {run: (spread.low, spread.high) for run, spread in zip(ids, ranking.spreads, strict=True)}, ranking


def side_of(file: ComparedFile) -> ComparedSide:
    """Describe a run of a comparison."""
    listing = file.listing
    return ComparedSide(
        id=file.run.id,
        name=file.run.name,
        target=listing.target,
        task=listing.task,
        dataset=listing.dataset,
        state=file.run.state,
    )


def _open(file: ComparedFile) -> _Opened:
    """Read a samples file without the metrics that only an environment of their own can combine."""
    from vlmhyperbench.reports.samples import read_samples

    samples = read_samples(Path(file.path).read_bytes(), what=f"samples.parquet of {file.run.name}")
    apart = set(samples.combined_apart())
    missing = {str(described["key"]) for described in samples.described() if not _opens(samples, described)}
    left_out = apart | missing
    kept = tuple(described for described in samples.metrics if str(described["key"]) not in left_out)
    return _Opened(samples=replace(samples, metrics=kept), left_out=tuple(sorted(left_out)))


def _opens(samples: Samples, described: Mapping[str, Any]) -> bool:
    spec = MetricSpec.model_validate(described["spec"])
    on_invalid: Literal["zero", "exclude"] = "zero" if samples.side.spec.get("on_invalid") == "zero" else "exclude"
    try:
        open_stored(spec, described.get("description"), NO_HOSTS, on_invalid=on_invalid)
    except VlmHyperBenchError:
        return False
    return True


def _compared(
    baseline: ComparedFile, first: _Opened, other: ComparedFile, second: _Opened, comparison: Comparison
) -> ComparedRun:
    from vlmhyperbench.reports import comparing

    as_json: Mapping[str, Any] = comparing.rows(comparison)
    left_out = sorted({*first.left_out, *second.left_out})
    warnings = [*comparison.warnings]
    if left_out:
        warnings.append(
            f"Not compared here, because only code in an environment of its own can combine it: {', '.join(left_out)}. "
            "`vlmhyperbench compare` prepares that environment."
        )
    return ComparedRun(
        run=side_of(other),
        verdict=comparing.verdict(comparison),
        is_paired=bool(comparison.deltas) or comparison.parity.pairs > 0,
        is_same_samples=first.samples.manifest_id == second.samples.manifest_id,
        warnings=warnings,
        metrics=[MetricDelta.model_validate({**delta, "metric": key}) for key, delta in as_json["metrics"].items()],
        flips=None if comparison.flips is None else FlipCounts.model_validate(asdict(comparison.flips)),
        same_texts=comparison.parity.same,
        text_pairs=comparison.parity.pairs,
        speeds=_speeds(comparison, as_json["speeds"]),
        costs=[_speed(name, pair, may_be_compared=False) for name, pair in as_json["costs"].items()],
        are_speeds_compared=comparing.is_one_measurement(comparison),
        configuration=_differences(_spec(baseline), _spec(other)),
        evaluation={
            key: _differences(baseline.evaluations[key], other.evaluations[key])
            for key in baseline.evaluations
            if key in other.evaluations
        },
        is_gate_met=comparison.is_met,
        checks=[GateCheck.model_validate(asdict(check)) for check in comparison.checks],
    )


def _speeds(comparison: Comparison, speeds: Mapping[str, Mapping[str, float | None]]) -> list[SpeedDelta]:
    """Return the speeds; a change only where a report shows one too."""
    from vlmhyperbench.reports.comparing import is_one_measurement

    is_measure = is_one_measurement(comparison)
    kinds = {samples.side.headline.get("peak_memory_of") for samples in (comparison.baseline, comparison.other)}
    return [
        _speed(name, pair, may_be_compared=len(kinds) == 1 if name == _MEMORY else is_measure)
        for name, pair in speeds.items()
    ]


def _speed(name: str, pair: Mapping[str, float | None], *, may_be_compared: bool) -> SpeedDelta:
    before, after = pair["baseline"], pair["other"]
    change = after / before - 1 if may_be_compared and before and after is not None else None
    is_finite = change is not None and math.isfinite(change)
    return SpeedDelta(name=name, baseline=before, other=after, change=change if is_finite else None)


def _spec(file: ComparedFile) -> JsonValue:
    spec: JsonValue = public_spec(file.run.pinned_spec()).model_dump(mode="json")
    return spec


def _differences(first: JsonValue, second: JsonValue) -> list[ConfigurationDifference]:
    return [
        ConfigurationDifference(path=difference.path, baseline=difference.a, other=difference.b)
        for difference, _ in zip(differences(first, second), range(MAX_DIFFERENCES), strict=False)
    ]
