"""The usual groupings of scores, by the names that tables and files of scores use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

AGGREGATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "general": (),
        "by_doc_type": ("doc_class",),
        "by_doc_question": ("doc_class", "question_type"),
        "by_field": ("field",),
    }
)
"""Name of a usual grouping → its group columns. For groups of one sample, `describe` is enough."""
