"""Find smaller quantisations of a model among the registered ones: what may stand for it where quality may be lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.registry.choices import ModelChoice
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import ModelEntry
from vlmhyperbench.registry.targets import resolve_target

_BITS: Final = re.compile(r"\d+")


def smaller_models(references: References, target: ModelTarget) -> tuple[ModelTarget, ...]:
    """Return the pinned models that are the same one in fewer bits, the largest first.

    Those that cannot be used, or whose files are still to be fetched, are left out without an error.
    """
    models = references.catalogue.models
    own = models.get(target.model)
    bits = _bits(target.quantization)
    if own is None or bits is None:
        return ()
    found: list[tuple[int, ModelTarget]] = []
    for name in _of_the_same(target.model, own, references):
        fewer = _bits(models[name].quantization)
        if fewer is None or fewer >= bits or target.backend not in models[name].backends:
            continue
        trying = replace(references, problems=[])
        pinned = resolve_target(trying, ModelChoice(model=name, backend=target.backend), None, ())
        if isinstance(pinned, ModelTarget) and not trying.problems:
            found.append((fewer, pinned))
    return tuple(pinned for _, pinned in sorted(found, key=lambda pair: (-pair[0], pair[1].model)))


def _of_the_same(name: str, own: ModelEntry, references: References) -> Iterator[str]:
    """Yield other entries of the same weights: by what they state, and by their recipes."""
    origin = _origin(name, own)
    for other, entry in sorted(references.catalogue.models.items()):
        if other != name and _origin(other, entry) == origin:
            yield other


def _origin(name: str, entry: ModelEntry) -> str:
    if entry.variant_of is not None:
        return entry.variant_of
    return entry.recipe.source if entry.recipe is not None else name


def _bits(quantization: str | None) -> int | None:
    found = _BITS.search(quantization or "")
    return int(found[0]) if found is not None else None
