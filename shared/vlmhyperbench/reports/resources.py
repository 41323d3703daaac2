"""What the engine and its machine took while a run measured: the worker's samples, over the window of the requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Literal

from vlmhyperbench.analysis.labels import short
from vlmhyperbench.reports.document import Cell, Column, Table
from vlmhyperbench.reports.records import ClaimEvidence, numbers
from vlmhyperbench.reports.wording import percent, size
from vlmhyperbench_sdk.types import JsonObject

TOKENS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Peaks and means over all claims that measured; None where a machine has no such thing, or nobody sampled it."""

    engine_memory_bytes: int | None
    """Peak resident memory of the engine's processes."""
    accelerator_memory_bytes: int | None
    """Peak of what all accelerators of the machine held, whoever used them."""
    accelerator_share: float | None
    """Mean utilisation of the accelerators."""
    cpu_share: float | None
    """Mean utilisation of all cores, the load generator's and the worker's included."""
    power_w: float | None
    """Energy over the window."""
    energy_j: float | None
    """Of all accelerators; None where two claims measured on one machine at a time."""
    energy_j_per_answer: float | None
    energy_j_per_1k_tokens: float | None
    """Per 1,000 output tokens."""
    coverage: float | None
    """Share of the expected samples that exist, of the claim that has fewest; none of one that left no samples."""

    @property
    def peak_memory_bytes(self) -> int | None:
        """The accelerators' peak where there are any, else the engine's resident memory."""
        return self.engine_memory_bytes if self.accelerator_memory_bytes is None else self.accelerator_memory_bytes

    @property
    def peak_memory_of(self) -> Literal["accelerators", "engine"] | None:
        """Whose memory that is; None where nobody knows its peak."""
        if self.accelerator_memory_bytes is not None:
            return "accelerators"
        return None if self.engine_memory_bytes is None else "engine"

    def as_json(self) -> JsonObject:
        """Return it for machines."""
        return asdict(self)


def resources_of(
    claims: Sequence[ClaimEvidence], *, answers: int, tokens: int | None, window_s: float | None
) -> Resources:
    """Sum up what the claims recorded.

    Args:
        claims: those that measured.
        answers: how many they brought.
        tokens: of these, where every one was counted.
        window_s: how long the claims measured, added up.
    """
    energies = _known(claims, "energy_accelerator_j")
    is_whole = bool(claims) and len(energies) == len(claims) and not _are_side_by_side(claims)
    energy_j = sum(energies) if is_whole else None
    return Resources(
        engine_memory_bytes=_most(claims, "engine_rss_bytes_peak"),
        accelerator_memory_bytes=_most(claims, "accelerator_memory_used_bytes_peak"),
        accelerator_share=_mean_percent(claims, "accelerator_util_percent_mean"),
        cpu_share=_mean_percent(claims, "cpu_util_percent_mean"),
        power_w=energy_j / window_s if energy_j is not None and window_s else None,
        energy_j=energy_j,
        energy_j_per_answer=energy_j / answers if energy_j is not None and answers else None,
        energy_j_per_1k_tokens=energy_j / tokens * TOKENS if energy_j is not None and tokens else None,
        coverage=_least_coverage(claims),
    )


def resources_table(runs: Sequence[tuple[str, Resources | None]]) -> Table | None:
    """Lay out what one or several runs took, a column each; None where nobody knows anything."""
    columns = [_cells(found) for _, found in runs]
    labels = list(dict.fromkeys(label for cells in columns for label in cells))
    if not labels:
        return None
    several = len(runs) > 1
    return Table(
        name="resources",
        title="What the engine took",
        columns=(Column(title=""), *(Column(title=run if several else "run", kind="number") for run, _ in runs)),
        rows=tuple((label, *(cells.get(label) for cells in columns)) for label in labels),
        note=(
            "Sampled ten times a second between the first request sent and the last one's end. Accelerators are all "
            "those of the machine, whoever uses them; energy is the trapezoid of their sampled power."
        ),
        is_collapsed=several,
    )


def _cells(found: Resources | None) -> dict[str, Cell]:
    """What stands in a run's column, by label; what nobody knows is missing."""
    if found is None:
        return {}
    cells = (
        ("peak memory of the engine", found.engine_memory_bytes, size),
        ("peak memory of the accelerators", found.accelerator_memory_bytes, size),
        ("utilisation of the accelerators, mean", found.accelerator_share, percent),
        ("utilisation of the processor, mean", found.cpu_share, percent),
        ("power of the accelerators, mean", found.power_w, _watts),
        ("energy of the accelerators", found.energy_j, _joules),
        ("energy per answer", found.energy_j_per_answer, _joules),
        ("energy per 1 000 output tokens", found.energy_j_per_1k_tokens, _joules),
        ("samples that exist of those expected", found.coverage, percent),
    )
    return {label: write(value) for label, value, write in cells if value is not None}


def _watts(value: float) -> str:
    return f"{short(value)}\u00a0W"


def _joules(value: float) -> str:
    return f"{short(value)}\u00a0J"


def _are_side_by_side(claims: Sequence[ClaimEvidence]) -> bool:
    """Whether two of them held one machine at a time, so that its energy is neither's."""
    by_host: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for claim in claims:
        by_host[claim.host].append((claim.started_at, claim.ended_at))
    return any(after[0] < before[1] for held in by_host.values() for before, after in pairwise(sorted(held)))


def _most(claims: Sequence[ClaimEvidence], name: str) -> int | None:
    return max((int(value) for value in _known(claims, name)), default=None)


def _mean_percent(claims: Sequence[ClaimEvidence], name: str) -> float | None:
    """Average over the claims' samples: a long claim counts more than a short one."""
    told = [claim for claim in claims if _known([claim], name)]
    weights = [sum(_known([claim], "samples")) for claim in told]
    if not any(weights):
        return None
    return (
        sum(sum(_known([claim], name)) * weight for claim, weight in zip(told, weights, strict=True))
        / sum(weights)
        / 100
    )


def _least_coverage(claims: Sequence[ClaimEvidence]) -> float | None:
    found = _known(claims, "coverage")
    return (min(found) if len(found) == len(claims) else 0.0) if found else None


def _known(claims: Sequence[ClaimEvidence], name: str) -> list[float]:
    return numbers((claim.resources for claim in claims), name)
