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
    """The columns in use, [start, end), of all layers."""

    start: int = 0
    end: int = 0


class _Rows(DynamicLayer):  # type: ignore[misc, unused-ignore]
    """One layer; its buffers have the shape (rows, heads, columns, head size)."""

    def __init__(self, window: _Window) -> None:
        super().__init__()
        self._window = window

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the next column, and return all columns up to it."""
        rows, start, end = key_states.shape[0], self._window.start, self._window.end
        self.keys[:rows, :, end : end + 1] = key_states
        self.values[:rows, :, end : end + 1] = value_states
        return self.keys[:rows, :, start : end + 1], self.values[:rows, :, start : end + 1]

    def get_seq_length(self) -> int:
        """Return the number of columns before the next one."""
        return self._window.end - self._window.start

    def move(self, rows: int, columns: int, begin: int, used: int) -> None:
        """Copy the used rows and the window into new buffers, in which the window begins at `begin`."""
        start, end = self._window.start, self._window.end
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros((rows, old.shape[1], columns, old.shape[3]))
            new[:used, :, begin : begin + end - start] = old[:used, :, start:end]
            setattr(self, name, new)

    def put(self, row: int, own: DynamicLayer, end: int) -> None:
        """Copy the keys and values of one prompt into a row, so that they end at a column."""
        for mine, its in ((self.keys, own.keys), (self.values, own.values)):
            mine[row, :, end - its.shape[-2] : end] = its[0]

    def replace(self, row: int, last: int) -> None:
        """Move the last row to the place of another one."""
        self.keys[row] = self.keys[last]
        self.values[row] = self.values[last]

    def create(self, own: DynamicLayer, rows: int, columns: int) -> None:
        """Create the buffers for keys and values like those of a prompt."""
        self.keys = own.keys.new_zeros((rows, own.keys.shape[1], columns, own.keys.shape[3]))
        self.values = own.values.new_zeros((rows, own.values.shape[1], columns, own.values.shape[3]))
        self.dtype, self.device, self.is_initialized = own.keys.dtype, own.keys.device, True


class BatchCache:
    """The cache of the answers that are decoded together; rows are in the order that `add` and `remove` leave."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._window = _Window()
        self._layers: list[_Rows] = []
        self._starts: list[int] = []
        self._rows = self._columns = 0
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
            self._rows, self._columns = 1, length + _MIN_SPARE_COLUMNS
            for layer, own in zip(self._layers, prompt.layers, strict=True):
                layer.create(own, self._rows, self._columns)
        if not used:
            self._window.start = self._window.end = 0
        self._reserve(used + 1, length)
        if not used:
            self._window.end = length
        end = self._window.end
        for layer, own in zip(self._layers, prompt.layers, strict=True):
            layer.put(used, own, end)
        self._starts.append(end - length)
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
        self._reserve(len(self._starts), 0)

    def advance(self) -> None:
        """Keep the column that the last step wrote."""
        self._window.end += 1

    def mask(self, device: torch.device) -> torch.Tensor | None:
        """Return which columns each row sees in the next step, (rows, columns); None if each sees all of them."""
        if min(self._starts) == max(self._starts):
            return None
        columns = torch.arange(self._window.start, self._window.end + 1, device=device)
        return (columns[None] >= torch.tensor(self._starts, device=device)[:, None]).long()

    def _reserve(self, rows: int, length: int) -> None:
        """Ensure that there are rows, that a prompt fits before the last column, and that one more column follows."""
        start, end = self._window.start, self._window.end
        fits = length <= end or not self._starts
        if rows <= self._rows and max(end, length) < self._columns and fits:
            return
        used = len(self._starts)
        new_rows = self._rows if rows <= self._rows else min(self._max_rows, max(rows, 2 * self._rows))
        begin = max(0, length - (end - start))
        new_end = begin + end - start
        columns = new_end + max(_MIN_SPARE_COLUMNS, new_end // 4)
        for layer in self._layers:
            layer.move(new_rows, columns, begin, used)
        shift = begin - start
        self._starts = [first + shift for first in self._starts]
        self._window.start, self._window.end = begin, new_end
        self._rows, self._columns = new_rows, columns


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
