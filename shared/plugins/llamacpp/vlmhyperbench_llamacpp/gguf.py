"""Read the header of a GGUF file: what its model is, and how many bytes each tensor has; no weight is read.

Layout: the GGUF specification of ggml (docs/gguf.md), versions 2 and 3: magic, version, numbers of tensors and values,
values as (key, type, value), tensors as (name, dimensions, type, offset), then the data, aligned.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from vlmhyperbench_sdk.errors import InvalidInput

Value = Union[int, float, bool, str, list[int], list[float], list[bool], None]

_SCALARS: Mapping[int, str] = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?"))) | {10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_KEPT = 4096
"""Longest array that is kept; vocabularies are longer, and nobody asks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """The header of a file."""

    values: Mapping[str, Value]
    """Key → value; a text array, and a long one, is None."""
    tensor_bytes: Mapping[str, int]
    """Tensor → bytes in the file, with its padding."""

    def whole(self, name: str) -> int | None:
        """Return a whole number of the model's architecture, such as `block_count`; None if it is not stated."""
        value = self.of_model(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    @property
    def is_projector(self) -> bool:
        """Whether it is the image projector of a model, which answers nothing by itself."""
        return self.values.get("general.architecture") == "clip"

    def of_model(self, name: str) -> Value:
        """Return a value of the model's architecture."""
        return self.values.get(f"{self.values.get('general.architecture')}.{name}")


def read_header(path: Path) -> GgufHeader:
    """Read the header of a file.

    Raises:
        InvalidInput: the file is no GGUF, or it is cut off.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Reader(data).header(size)
        except (struct.error, ValueError, KeyError, IndexError, OverflowError, UnicodeDecodeError) as error:
            cure = "Give a GGUF file, or fetch it again."
            raise InvalidInput(f"The file {path} is no whole GGUF file: {error}.", cure=cure) from error


class _Reader:
    """A position in the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at = data, 0

    def header(self, size: int) -> GgufHeader:
        """Read the header of a file of `size` bytes.

        Raises:
            ValueError, KeyError, struct.error: the file is no GGUF file, or is cut off.
        """
        magic, version, tensors, values = self._take("4sIQQ")
        if magic != b"GGUF" or version not in {2, 3}:
            raise ValueError("it does not begin as version 2 or 3 of the format does")
        read: dict[str, Value] = {}
        for _ in range(values):
            key = self._text()
            read[key] = self._value(self._take("I")[0])
        offsets = [self._tensor() for _ in range(tensors)]
        alignment = read.get("general.alignment")
        step = alignment if isinstance(alignment, int) and alignment > 0 else 32
        data_bytes = size - -(-self._at // step) * step
        offsets.sort(key=lambda tensor: tensor[1])
        bounds = [*(offset for _, offset in offsets), max(data_bytes, 0)]
        sizes = {name: end - begin for (name, begin), end in zip(offsets, bounds[1:], strict=True)}
        if any(size < 0 for size in sizes.values()):
            raise ValueError("its tensors reach beyond its end")
        return GgufHeader(values=read, tensor_bytes=sizes)

    def _tensor(self) -> tuple[str, int]:
        name = self._text()
        (dimensions,) = self._take("I")
        self._take(f"{min(dimensions, 8)}Q")
        _, offset = self._take("IQ")
        return name, offset

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            value: Value = self._take(_SCALARS[kind])[0]
            return value
        inner, count = self._take("IQ")
        if inner in _SCALARS:
            form = f"<{count}{_SCALARS[inner]}"
            begin, self._at = self._at, self._at + struct.calcsize(form)
            return [*struct.unpack_from(form, self._data, begin)] if count <= _MAX_KEPT else None
        for _ in range(count):
            if inner == _STRING:
                self._at += 8 + struct.unpack_from("<Q", self._data, self._at)[0]
            else:
                self._value(inner)
        return None

    def _text(self) -> str:
        (length,) = self._take("Q")
        begin, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise ValueError("it ends in a text")
        return self._data[begin : self._at].decode("utf-8", "replace")

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return values
