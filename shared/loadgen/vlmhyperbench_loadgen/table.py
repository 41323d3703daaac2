"""Read the plan's `requests.npy` and `bodies.bin` without numpy, whose import alone takes half of the start-up time."""

from __future__ import annotations

import ast
import mmap
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from vlmhyperbench_loadgen.failures import PlanError

BODIES = "bodies.bin"
_MAGIC = b"\x93NUMPY"
_FORMATS = {"<i4": "i", "<i8": "q", "S64": "64s"}


class Request(NamedTuple):
    """One row of `requests.npy`, in the order of `vlmhyperbench_sdk.load.REQUEST_DTYPE`."""

    phase: int
    ordinal: int
    sample: int
    repeat: int
    turn: int
    member: int
    stream: int
    body_offset: int
    body_bytes: int
    think_ns: int
    prompt_tokens: int
    output_tokens: int
    request_sha256: bytes


DTYPE = (
    *((name, "<i4") for name in ("phase",)),
    *((name, "<i8") for name in ("ordinal", "sample")),
    *((name, "<i4") for name in ("repeat", "turn", "member", "stream")),
    *((name, "<i8") for name in ("body_offset", "body_bytes", "think_ns")),
    *((name, "<i4") for name in ("prompt_tokens", "output_tokens")),
    ("request_sha256", "S64"),
)
"""The same as `REQUEST_DTYPE`, so that a measuring process need not import numpy; a test compares both."""

TURN_DTYPE = (("phase", "<i4"), ("ordinal", "<i8"), ("conversation", "<i8"))
PLACE_DTYPE = (("phase", "<i4"), ("ordinal", "<i8"), ("answer_of", "<i4"), ("offset", "<i8"))
"""The same as those of the SDK, for the same reason."""

RequestKey: TypeAlias = tuple[int, int]
"""(phase, ordinal)."""


class Quotation(NamedTuple):
    """An earlier answer that a body quotes."""

    answer_of: int
    """The turn that the answer belongs to."""
    offset: int
    """Offset in the body at which the answer is inserted: of the closing quote of an empty string."""


_ROW = struct.Struct("<" + "".join(_FORMATS[kind] for _, kind in DTYPE))


def read_requests(path: Path) -> list[Request]:
    """Read the table, in order.

    Raises:
        PlanError: the file is missing, or not a structured array of `REQUEST_DTYPE`.
    """
    columns, count, rows = _read_array(path)
    if columns != [(name, kind.replace("S64", "|S64")) for name, kind in DTYPE]:
        raise PlanError(f"{path.name} does not have the columns of REQUEST_DTYPE.")
    if len(rows) != count * _ROW.size:
        raise PlanError(f"{path.name} should have {count} rows and is cut or too long.")
    # `Request._make` takes ten times as long.
    return list(map(partial(tuple.__new__, Request), _ROW.iter_unpack(rows)))


def read_turns(folder: Path) -> dict[RequestKey, int]:
    """Read which conversation each request belongs to; empty if the plan has no conversations.

    Raises:
        PlanError: the file is not a structured array of `TURN_DTYPE`, or names a request twice.
    """
    turns: dict[RequestKey, int] = {}
    for phase, ordinal, conversation in _read_rows(folder / "turns.npy", TURN_DTYPE):
        if (phase, ordinal) in turns or conversation < 0:
            raise PlanError(f"turns.npy names request {ordinal} of phase {phase} twice, or a conversation below 0.")
        turns[phase, ordinal] = conversation
    return turns


def read_quotations(folder: Path) -> dict[RequestKey, list[Quotation]]:
    """Read which earlier answers each body quotes, and where; empty if the plan has no `places.npy`.

    Raises:
        PlanError: the file is not a structured array of `PLACE_DTYPE`.
    """
    quotations: dict[RequestKey, list[Quotation]] = {}
    for phase, ordinal, answer_of, offset in _read_rows(folder / "places.npy", PLACE_DTYPE):
        quotations.setdefault((phase, ordinal), []).append(Quotation(answer_of, offset))
    return quotations


def _read_rows(path: Path, kinds: Sequence[tuple[str, str]]) -> Iterator[tuple[int, ...]]:
    if not path.exists():
        return iter(())
    columns, count, rows = _read_array(path)
    layout = struct.Struct("<" + "".join(_FORMATS[kind] for _, kind in kinds))
    if columns != list(kinds) or len(rows) != count * layout.size:
        raise PlanError(f"{path.name} does not have the columns {', '.join(name for name, _ in kinds)}, or is cut.")
    return layout.iter_unpack(rows)


def schedule_path(folder: Path, phase: int) -> Path:
    """Return the file with the instants of an open loop."""
    return folder / f"schedule-{phase}.npy"


def read_schedule(path: Path) -> array[int]:
    """Read the instants of an open loop, in ns from the phase's start.

    Raises:
        PlanError: the file is missing, is no array of int64, or holds instants that are negative or not ascending.
    """
    kind, count, data = _read_array(path)
    if kind != "<i8" or len(data) != 8 * count:
        raise PlanError(f"{path.name} is not an array of int64, or it is cut.")
    instants = array("q", bytes(data))
    if sys.byteorder == "big":
        instants.byteswap()
    if any(later < earlier for earlier, later in pairwise(instants)) or (instants and instants[0] < 0):
        raise PlanError(f"{path.name} has instants that do not ascend.")
    return instants


def _read_array(path: Path) -> tuple[object, int, memoryview]:
    """Return the type, the length and the bytes of a one-dimensional array."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(f"{path.name} cannot be read: {error.strerror}.") from error
    if data[:6] != _MAGIC or len(data) < 12:
        raise PlanError(f"{path.name} is not an array saved by numpy.")
    size, start = (
        (struct.unpack_from("<H", data, 8)[0], 10) if data[6] == 1 else (*struct.unpack_from("<I", data, 8), 12)
    )
    try:
        header = ast.literal_eval(data[start : start + size].decode("utf-8").strip())
        kind, shape, is_fortran = header["descr"], header["shape"], header["fortran_order"]
    except (ValueError, SyntaxError, KeyError, TypeError) as error:
        raise PlanError(f"{path.name} has no readable numpy header.") from error
    if not isinstance(shape, tuple) or len(shape) != 1 or not isinstance(shape[0], int) or is_fortran:
        raise PlanError(f"{path.name} is not a one-dimensional array in C order.")
    return kind, shape[0], memoryview(data)[start + size :]


def open_bodies(path: Path) -> memoryview:
    """Map the file of bodies into memory and ask the system to read it ahead.

    Raises:
        PlanError: the file cannot be read.
    """
    try:
        if path.stat().st_size == 0:
            return memoryview(b"")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise PlanError(f"{path.name} cannot be read: {error.strerror}.") from error
    if hasattr(mmap, "MADV_WILLNEED"):
        mapped.madvise(mmap.MADV_WILLNEED)
    return memoryview(mapped)
