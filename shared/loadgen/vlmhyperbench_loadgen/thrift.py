"""Write Thrift's compact protocol, as far as Parquet footers use it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

Value: TypeAlias = "int | I64 | str | Struct | Written | Sequence[Value]"
Struct: TypeAlias = dict[int, Value]
"""Field number → value, ascending; an `int` is an i32."""

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


class I64(int):
    """A number that is written as 64 bits."""


@lru_cache(maxsize=8192)
def varint(number: int) -> bytes:
    """Write an unsigned number, seven bits per byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def write_struct(struct: Struct) -> bytes:
    """Write a struct with its end."""
    written, last = bytearray(), 0
    for number, value in struct.items():
        delta = number - last
        if not 0 < delta < 16:
            raise ValueError(f"field {number} after {last}")
        kind, data = _write(value)
        written.append(delta << 4 | kind)
        written += data
        last = number
    written.append(0)
    return bytes(written)


class Written(NamedTuple):
    """The type and bytes of a value that was written before."""

    kind: int
    data: bytes


def write_list(items: Sequence[Value]) -> Written:
    """Write a list of values of the same type, for use as a value."""
    return Written(*_write(items))


def _write(value: Value) -> tuple[int, bytes]:
    """Return a value's type and its bytes."""
    if isinstance(value, int):
        return _I64 if isinstance(value, I64) else _I32, varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, str):
        data = value.encode()
        return _BINARY, varint(len(data)) + data
    if isinstance(value, dict):
        return _STRUCT, write_struct(value)
    if isinstance(value, Written):
        return value
    items = [_write(item) for item in value]
    kind = items[0][0] if items else _STRUCT
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
    return _LIST, head + b"".join([data for _, data in items])
