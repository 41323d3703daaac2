"""Functions that a child runs: this module imports `composing` only when they are called, so the worker stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.reports.bundles import Draft, ReportFile, RunBundle


def warm_up() -> None:
    """Import what the next call needs, while the worker still reads the facts."""
    import vlmhyperbench.reports.composing  # noqa: F401 -- the import itself is the purpose


def compose_run(bundle: RunBundle) -> Draft:
    """Build the report of a run; raises as `composing.compose_run`."""
    from vlmhyperbench.reports import composing

    return composing.compose_run(bundle)


def compose_comparison(experiment_id: str, name: str, state: str, bundles: Sequence[RunBundle]) -> Draft:
    """Build the comparison of runs; raises as `composing.compose_comparison`."""
    from vlmhyperbench.reports import composing

    return composing.compose_comparison(experiment_id, name, state, bundles)


def as_json(draft: Draft) -> bytes:
    """Return what `report.json` holds."""
    from vlmhyperbench.reports import composing

    return composing.as_json(draft)


def render(
    draft: Draft, images: Mapping[str, bytes], *, formats: Sequence[str], limitations: Sequence[str] = ()
) -> tuple[ReportFile, ...]:
    """Write a report's files."""
    from vlmhyperbench.reports import composing

    return composing.render(draft, images, formats=formats, limitations=limitations)
