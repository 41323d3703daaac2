"""Keys and values of all answers that are decoded together, in one buffer per layer.

The answers end at the same column: each step writes one column for all of them, without a copy, and an answer that
joins is copied in once, so that its last token is in the last column. Columns before an answer's first token are
masked. Since answers are aligned at their ends, distances between tokens are right, also for sliding windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

_MIN_SPARE_COLUMNS = 256


@dataclass
class _Window:
    """The columns in use, [start, end), the same for all layers; a prompt that is longer makes the start negative."""

    start: int = 0
    end: int = 0


class _Rows(DynamicLayer):
    """One layer; its buffers have the shape (rows, heads, columns, head size).

    Each layer knows which column its buffers begin with. So memory that runs out between two layers leaves all of them
    whole: some have new buffers already, with the same content.
    """

    def __init__(self, window: _Window) -> None:
        super().__init__()
        self._window = window
        self._base = 0
        """The column of the window that is the first of the buffers."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the next column, and return all columns up to it."""
        rows, start, end = key_states.shape[0], self._window.start - self._base, self._window.end - self._base
        self.keys[:rows, :, end : end + 1] = key_states
        self.values[:rows, :, end : end + 1] = value_states
        return self.keys[:rows, :, start : end + 1], self.values[:rows, :, start : end + 1]

    def get_seq_length(self) -> int:
        """Return the number of columns before the next one."""
        return self._window.end - self._window.start

    def create(self, own: DynamicLayer) -> None:
        """Create empty buffers for keys and values like those of a prompt."""
        self.keys, self.values = own.keys[:0, :, :0].clone(), own.values[:0, :, :0].clone()
        self.dtype, self.device, self.is_initialized = own.keys.dtype, own.keys.device, True

    def reserve(self, rows: int, first: int, *, used: int, max_rows: int) -> None:
        """Ensure that there are rows, and columns from the first to the one after the window.

        If memory runs out, the layer stays as it is.
        """
        start, end = self._window.start, self._window.end
        has_rows, has_columns = self.keys.shape[0], self.keys.shape[2]
        if not used:
            self._base = first  # nothing is kept, so the buffers may begin anywhere
        if rows <= has_rows and self._base <= first and end < self._base + has_columns:
            return
        new_rows = has_rows if rows <= has_rows else min(max_rows, max(rows, 2 * has_rows))
        columns = end - first + max(_MIN_SPARE_COLUMNS, (end - first) // 4)
        moved = []
        for old in (self.keys, self.values):
            new = old.new_zeros((new_rows, old.shape[1], columns, old.shape[3]))
            if used:
                new[:used, :, start - first : end - first] = old[:used, :, start - self._base : end - self._base]
            moved.append(new)
        self.keys, self.values = moved
        self._base = first

    def put(self, row: int, own: DynamicLayer) -> None:
        """Copy the keys and values of one prompt into a row, so that they end with the window."""
        end = self._window.end - self._base
        for mine, its in ((self.keys, own.keys), (self.values, own.values)):
            mine[row, :, end - its.shape[-2] : end] = its[0]

    def replace(self, row: int, last: int) -> None:
        """Move the last row to the place of another one."""
        self.keys[row] = self.keys[last]
        self.values[row] = self.values[last]


class BatchCache:
    """The cache of the answers that are decoded together; rows are in the order that `add` and `remove` leave.

    Memory that runs out in any of its methods leaves the answers that it had whole.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._window = _Window()
        self._layers: list[_Rows] = []
        self._starts: list[int] = []
        self.cache: Cache | None = None
        """What the forward pass is given."""

    def add(self, prompt: DynamicCache) -> None:
        """Add an answer as the last row.

        Args:
            prompt: The cache after the forward pass of its prompt, for which `can_join` is true.
        """
        length = prompt.get_seq_length()
        used = len(self._starts)
        if not self._layers:
            self._layers = [_Rows(self._window) for _ in prompt.layers]
            self.cache = Cache(layers=list(self._layers))
            for layer, own in zip(self._layers, prompt.layers, strict=True):
                layer.create(own)
        if not used:
            self._window.start, self._window.end = 0, length
        first = self._window.end - length
        self._reserve(used + 1, min(self._window.start, first))
        for layer, own in zip(self._layers, prompt.layers, strict=True):
            layer.put(used, own)
        self._starts.append(first)
        self._window.start = min(self._starts)

    def remove(self, row: int) -> None:
        """Remove an answer; the last row takes its place."""
        last = len(self._starts) - 1
        if row != last:
            for layer in self._layers:
                layer.replace(row, last)
            self._starts[row] = self._starts[last]
        self._starts.pop()
        self._window.start = min(self._starts, default=self._window.end)

    def make_room(self) -> None:
        """Ensure that the next step has a column."""
        self._reserve(len(self._starts), self._window.start)

    def advance(self) -> None:
        """Keep the column that the last step wrote."""
        self._window.end += 1

    def mask(self, device: torch.device) -> torch.Tensor | None:
        """Return which columns each row sees in the next step, (rows, columns); None if each sees all of them."""
        if min(self._starts) == max(self._starts):
            return None
        columns = torch.arange(self._window.start, self._window.end + 1, device=device)
        return (columns[None] >= torch.tensor(self._starts, device=device)[:, None]).long()

    def _reserve(self, rows: int, first: int) -> None:
        for layer in self._layers:
            layer.reserve(rows, first, used=len(self._starts), max_rows=self._max_rows)


def new_cache(config: Any) -> DynamicCache:
    """Return an empty cache for one prompt.

    Sliding windows are left to the mask, so that all layers of the answers in a batch have the same columns. Layers
    that keep something else than keys and values stay as the model has them, and their answers are decoded one by one.
    """
    own = DynamicCache(config=config)
    if all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in own.layers):
        return DynamicCache()
    return own


def can_join(cache: Any, length: int) -> bool:
    """Return whether an answer can be decoded with others: each layer has keys for each token of its prompt."""
    layers: Sequence[Any] = getattr(cache, "layers", ())
    return bool(layers) and all(
        type(layer) is DynamicLayer
        and layer.is_initialized
        and layer.keys.shape[0] == 1
        and layer.keys.shape[-2] == length
        for layer in layers
    )
