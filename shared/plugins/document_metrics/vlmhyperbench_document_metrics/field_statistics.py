"""Statistics by field, from which a table of fields can be made for any group."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256

from vlmhyperbench_document_metrics.fields import Tally

MAX_PATHS = 100
"""Maximum number of paths of a sample with statistics of their own; each path has two."""
MAX_PATH_CHARS = 100
OTHERS = "*"
"""Path of all other fields."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_DIGEST_CHARS = 8


def field_statistics(tally: Tally) -> dict[str, float]:
    """Return `right:<path>` and `expected:<path>` of the reference's fields, such as `right:items[].price`."""
    names = {path: _short(path) for path in tally.expected}
    for path in list(names)[MAX_PATHS - 1 :] if len(names) > MAX_PATHS else []:
        names[path] = OTHERS
    statistics: Counter[str] = Counter()
    for path, name in names.items():
        statistics[f"expected:{name}"] += tally.expected[path]
        statistics[f"right:{name}"] += tally.right[path]
    return {name: float(count) for name, count in statistics.items()}


def _short(path: str) -> str:
    """Return a path in a form that is valid as a column's name; a long path is truncated and gets a digest."""
    storable = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", path)
    if len(storable) <= MAX_PATH_CHARS:
        return storable
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{storable[: MAX_PATH_CHARS - _DIGEST_CHARS - 1]}\N{HORIZONTAL ELLIPSIS}{digest}"
