"""How many tokens an image becomes at most, from the header of its projector; pure. Unknown projectors have no answer.

Sources: llama.cpp, `tools/mtmd/clip.cpp` (`clip_n_output_tokens`) and `mtmd.cpp` (tokens around the tiles).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vlmhyperbench_sdk.gguf import GgufHeader

TILED: Final = frozenset({"idefics3"})
"""An image becomes tiles of one size, and one overview."""
FIXED: Final[Mapping[str, int]] = {"gemma3": 4}
"""Every image becomes equally many tokens; the factor of the projection where no header states it."""
DYNAMIC: Final = frozenset({"qwen2vl_merger", "qwen2.5vl_merger", "qwen3vl_merger", "pixtral", "lfm2", "kimivl"})
"""An image becomes tokens by its size, up to the limit that `image_max_tokens` sets."""

MIN_LIMIT: Final = 64
"""Least limit that is set: below it, no text of a page can be read."""
_AROUND_TILE: Final = 16
"""Tokens that mark a tile, its row and its column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTokens:
    """What is known of the tokens of an image; without a projector, nothing."""

    max_tokens: int | None = None
    min_limit: int | None = None
    """Least limit that may be set; None where a limit has no effect."""


def image_tokens_of(projector: GgufHeader, params: Mapping[str, int | float | str]) -> ImageTokens:
    """Return the most tokens that an image becomes."""
    kind = projector.values.get("clip.vision.projector_type") or projector.values.get("clip.projector_type")
    limit = int(params["image_max_tokens"])
    if kind in DYNAMIC:
        return ImageTokens(max_tokens=limit or None, min_limit=MIN_LIMIT)
    size, patch = projector.whole("vision.image_size"), projector.whole("vision.patch_size")
    if not size or not patch or not (kind in TILED or kind in FIXED):
        return ImageTokens()
    side = size // patch // (projector.whole("vision.projector.scale_factor") or FIXED.get(str(kind), 1))
    if kind in FIXED:
        return ImageTokens(max_tokens=side * side)
    longest = projector.whole("vision.preproc_image_size") or size
    tiles = (-(-longest // size)) ** 2 + 1
    return ImageTokens(max_tokens=tiles * (side * side + _AROUND_TILE))
