"""Write Thrift's compact protocol, as far as the footers of Parquet need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = "int | I64 | str | Struct | Sequence[Value]"
Struct: TypeAlias = Mapping[int, Value]
"""Field number → value, ascending; an `int` is an i32."""

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


class I64(int):
    """A number that is declared to be of 64 bits."""


def varint(number: int) -> bytes:
    """Write an unsigned number, seven bits a byte, the lowest first."""
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
        written.append(delta << 4 | _kind(value))
        written += _write(value)
        last = number
    written.append(0)
    return bytes(written)


def _kind(value: Value) -> int:
    match value:
        case I64():
            return _I64
        case int():
            return _I32
        case str():
            return _BINARY
        case Mapping():
            return _STRUCT
        case _:
            return _LIST


def _write(value: Value) -> bytes:
    match value:
        case int():
            return varint(value << 1 if value >= 0 else (-value << 1) - 1)
        case str():
            data = value.encode()
            return varint(len(data)) + data
        case Mapping():
            return write_struct(value)
        case _:
            kind = _kind(value[0]) if value else _STRUCT
            head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + varint(len(value))
            return head + b"".join(map(_write, value))
