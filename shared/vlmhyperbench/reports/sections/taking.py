"""Which samples of a dataset were asked, and what was done to their images, in words."""

from __future__ import annotations

from vlmhyperbench.domain.selection import GreyscaleStep, PagesStep, PreprocessStep, ResizeStep, RotateStep
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.reports.sections.wording import plural


def taking_items(dataset: DatasetSpec) -> tuple[tuple[str, str], ...]:
    """List filters, draw, limit and steps of the images; every row is there, so that its absence is stated too."""
    return (
        ("samples taken", "; ".join([*_filters(dataset), *_draw(dataset), *_limit(dataset)]) or "all"),
        ("images", ", then ".join(map(_step, dataset.preprocess)) or "unchanged"),
    )


def _filters(dataset: DatasetSpec) -> list[str]:
    labels = (("doc_class", dataset.doc_classes), ("question_type", dataset.question_types))
    return [*(f"{name}={','.join(values)}" for name, values in labels if values), *dataset.where]


def _draw(dataset: DatasetSpec) -> list[str]:
    sampling = dataset.sampling
    if sampling is None:
        return []
    strata = f" by {', '.join(sampling.by)}, {sampling.allocation}" if sampling.by else ""
    return [f"{sampling.size} drawn{strata} with seed {sampling.seed}"]


def _limit(dataset: DatasetSpec) -> list[str]:
    return [] if dataset.limit is None else [f"the first {plural(dataset.limit, 'sample')}"]


def _step(step: PreprocessStep) -> str:
    match step:
        case PagesStep(keep=keep):
            return f"pages {', '.join(map(str, keep))} kept"
        case ResizeStep(max_side=side):
            return f"longer side scaled down to {side} px"
        case GreyscaleStep():
            return "made grey"
        case RotateStep(degrees=degrees):
            return f"turned {degrees}° counter-clockwise"
