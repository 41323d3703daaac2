"""Read the parsed answer out of a model's text, by extractors with a name and a version.

A measure is keyed by its extractor: another way to read the same text is another extractor or another version.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from vlmhyperbench_sdk.errors import NotFound

Extractor = Callable[[str], str]

DEFAULT_EXTRACTOR = "text@1"


def _text(answer: str) -> str:
    return answer


EXTRACTORS: Mapping[str, Extractor] = MappingProxyType({DEFAULT_EXTRACTOR: _text})
"""`text@1`: the content as it is (never the reasoning); what white space means is the metric's business."""


def extract(texts: Sequence[str], *, extractor: str = DEFAULT_EXTRACTOR) -> list[str]:
    """Return the parsed answers. Shape as `texts`: (answers,).

    Raises:
        NotFound: there is no such extractor.
    """
    if extractor not in EXTRACTORS:
        near = difflib.get_close_matches(extractor, EXTRACTORS, n=1) or sorted(EXTRACTORS)
        raise NotFound(f"There is no extractor {extractor!r}.", cure=f"Write one of: {', '.join(near)}.")
    return [EXTRACTORS[extractor](text) for text in texts]
