"""Resources of the engine and its machine during a run, from the samples that workers took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from vlmhyperbench.summaries.records import ClaimEvidence, max_integer, numbers
from vlmhyperbench.summaries.speeds import Resources

TOKENS = 1_000
_BEFORE = "accelerator_memory_before_load_bytes"


def resources_of(
    claims: Sequence[ClaimEvidence],
    *,
    answers: int,
    tokens: int | None,
    window_s: float | None,
    request_delta_bytes: int | None = None,
) -> Resources:
    """Sum the records of the claims.

    Args:
        claims: Claims that measured.
        answers: Number of answers.
        tokens: Number of output tokens; None where an answer has no count.
        window_s: Time that the claims measured together.
        request_delta_bytes: Largest rise of the accelerators' memory during one request.
    """
    energies = _known(claims, "energy_accelerator_j")
    is_whole = bool(claims) and len(energies) == len(claims) and not _are_side_by_side(claims)
    energy_j = sum(energies) if is_whole else None
    return Resources(
        engine_memory_bytes=max_integer(_known(claims, "engine_rss_bytes_peak")),
        accelerator_memory_bytes=max_integer(_known(claims, "accelerator_memory_used_bytes_peak")),
        accelerator_share=_mean_percent(claims, "accelerator_util_percent_mean"),
        cpu_share=_mean_percent(claims, "cpu_util_percent_mean"),
        power_w=energy_j / window_s if energy_j is not None and window_s else None,
        energy_j=energy_j,
        energy_j_per_answer=energy_j / answers if energy_j is not None and answers else None,
        energy_j_per_1k_tokens=energy_j / tokens * TOKENS if energy_j is not None and tokens else None,
        coverage=_min_coverage(claims),
        accelerator_before_bytes=max_integer(_known(claims, _BEFORE)),
        accelerator_delta_bytes=max_integer(peak - before for claim in claims for before, peak in _load(claim)),
        request_delta_bytes=request_delta_bytes,
    )


def _load(claim: ClaimEvidence) -> Iterable[tuple[float, float]]:
    """Return the memory before a load and the peak of a claim; nothing where one of them is not known."""
    return zip(_known([claim], _BEFORE), _known([claim], "accelerator_memory_used_bytes_peak"), strict=False)


def _are_side_by_side(claims: Sequence[ClaimEvidence]) -> bool:
    """Return whether two claims used one machine at the same time, so that its energy cannot be divided."""
    by_host: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for claim in claims:
        by_host[claim.host].append((claim.started_at, claim.ended_at))
    return any(after[0] < before[1] for spans in by_host.values() for before, after in pairwise(sorted(spans)))


def _mean_percent(claims: Sequence[ClaimEvidence], name: str) -> float | None:
    """Average over the claims, weighted by their numbers of samples."""
    sampled = [claim for claim in claims if _known([claim], name)]
    weights = [sum(_known([claim], "samples")) for claim in sampled]
    if not any(weights):
        return None
    return (
        sum(sum(_known([claim], name)) * weight for claim, weight in zip(sampled, weights, strict=True))
        / sum(weights)
        / 100
    )


def _min_coverage(claims: Sequence[ClaimEvidence]) -> float | None:
    coverages = _known(claims, "coverage")
    return (min(coverages) if len(coverages) == len(claims) else 0.0) if coverages else None


def _known(claims: Sequence[ClaimEvidence], name: str) -> list[float]:
    return numbers((claim.resources for claim in claims), name)
