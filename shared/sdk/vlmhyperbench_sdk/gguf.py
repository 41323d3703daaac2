"""Read the header of a GGUF file: what its model is, and how many bytes each tensor has; no weight is read.

Layout: the GGUF specification of ggml (docs/gguf.md), versions 2 and 3: magic, version, numbers of tensors and values,
values as (key, type, value), tensors as (name, dimensions, type, offset), then the data, aligned.

Nothing that a file states of itself is believed: no memory is taken for a count or a length before its bytes have been
read, and counts, lengths and the header as a whole are bounded. The file is read, not mapped, because a mapped file
that another process cuts off ends this one.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from operator import length_hint
from pathlib import Path
from typing import Any, BinaryIO, Final, Union

from vlmhyperbench_sdk.errors import InvalidInput

Value = Union[int, float, bool, str, list[int], list[float], list[bool], None]

MAX_HEADER_BYTES: Final = 256 * 1024 * 1024
MAX_VALUES: Final = 65_536
MAX_TENSORS: Final = 1_000_000
MAX_ITEMS: Final = 16_000_000
"""Items of an array; the largest vocabularies have 262,144."""
_MAX_KEY_BYTES: Final = 65_535
_MAX_NAME_BYTES: Final = 1024
_MAX_DIMENSIONS: Final = 8
_MAX_ALIGNMENT: Final = 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024

_SCALARS: Mapping[int, str] = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?"))) | {10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_KEPT = 4096
"""Longest array that is kept; vocabularies are longer, and nobody asks for them."""
_RUN_TEXTS: Final = 512
"""Texts that one match of a pattern skips, in half of the time that a loop takes."""
_RUN_MAX_BYTES: Final = 63
_USUAL_BYTES: Final = 8
"""Length of a usual token; the pattern tries the lengths near it first."""

TYPES: Final[Mapping[int, tuple[str, int, int]]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
"""Number of a tensor's type → name, values and bytes of a block (ggml's table of types)."""

FILE_TYPES: Final[Mapping[int, str]] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
}
"""`general.file_type` → the name of the quantisation as a whole (llama.cpp, `llama_ftype`)."""
_FAMILY: Final = re.compile(r"(?:BF|F|I?Q|TQ|MXFP)[0-9]+(?:_[01K](?![0-9A-Z]))?")


def quantization_family(name: str) -> str:
    """Return the types of a quantisation's tensors, whatever its mixture is called: `Q4_K` of `Q4_K_M`."""
    found = _FAMILY.search(name.upper())
    return name if found is None else found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """The header of a file."""

    values: Mapping[str, Value]
    """Key → value; a text array, and a long one, is None."""
    tensor_bytes: Mapping[str, int]
    """Tensor → bytes in the file, with its padding."""
    type_bytes: Mapping[str, int]
    """Type of tensors → bytes of all tensors of that type."""
    parameter_count: int
    header_bytes: int
    text_counts: Mapping[str, int] = field(default_factory=dict)
    """Key of a text array → how many texts it has, such as the tokens of a vocabulary."""

    def whole(self, name: str) -> int | None:
        """Return a whole number of the model's architecture, such as `block_count`; None if it is not stated."""
        value = self.of_model(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    @property
    def is_projector(self) -> bool:
        """Whether it is the image projector of a model, which answers nothing by itself."""
        return self.values.get("general.architecture") == "clip"

    @property
    def quantization(self) -> str | None:
        """The quantisation that the file states, such as `Q4_K_M`, if it has tensors like that.

        Else the type of most of the weights' bytes, which a large embedding may be; None for a file without tensors.
        """
        stated = self.values.get("general.file_type")
        name = FILE_TYPES.get(stated, "") if isinstance(stated, int) else ""
        width = quantization_family(name).partition("_")[0]
        if width and any(kind.partition("_")[0] == width for kind in self.type_bytes):
            return name
        return max(self.type_bytes, key=lambda name: self.type_bytes[name], default=None)

    @property
    def part(self) -> tuple[int, int] | None:
        """Which of how many files it is, from 1, where a model was split into several; None for a whole model."""
        no, count = self.values.get("split.no"), self.values.get("split.count")
        return (no + 1, count) if isinstance(no, int) and isinstance(count, int) and count > 1 else None

    def of_model(self, name: str) -> Value:
        """Return a value of the model's architecture."""
        return self.values.get(f"{self.values.get('general.architecture')}.{name}")


def read_header(path: Path) -> GgufHeader:
    """Read the header of a file.

    Raises:
        InvalidInput: the file is no GGUF, or it is cut off, or its header contradicts itself (code `no_gguf`).
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        size = path.stat().st_size
        try:
            return _Reader(file, size).header()
        except ValueError as error:
            cure = "Give the weights themselves, or fetch the file again: a page or a pointer may be in its place."
            message = f"The file {path} is no whole GGUF file: {error}."
            raise InvalidInput(message, cure=cure, code="no_gguf") from error


def read_weights(path: Path) -> GgufHeader:
    """Read the header of a file that must have all weights of a model or of a projector.

    Raises:
        InvalidInput: as `read_header`; or the file is one part of a model, since the others would be neither estimated
            nor pinned by a hash (code `gguf_part`), or has no weights (code `gguf_no_weights`).
        OSError: it cannot be read.
    """
    header = read_header(path)
    if header.part is not None:
        message = "{} is part {} of the {} files of a model.".format(path, *header.part)
        cure = f"Merge them: llama-gguf-split --merge {path} WHOLE.gguf; then give the merged file."
        raise InvalidInput(message, cure=cure, code="gguf_part")
    if not header.tensor_bytes:
        message = f"{path} has a header and no weights, as files of a vocabulary have."
        raise InvalidInput(message, cure="Give a file with the weights of the model.", code="gguf_no_weights")
    return header


class _Reader:
    """A position in the file, and what of the file has been read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._data, self._at = bytearray(), 0
        self._text_counts: dict[str, int] = {}

    def header(self) -> GgufHeader:
        """Read the header.

        Raises:
            ValueError: the file is no GGUF file, or is cut off.
        """
        magic, version, tensors, values = self._take("4sIQQ")
        if magic != b"GGUF" or version not in {2, 3}:
            raise ValueError("it does not begin as version 2 or 3 of the format does")
        if values > MAX_VALUES or tensors > MAX_TENSORS:
            raise ValueError(f"it states {values} values and {tensors} tensors, more than any model has")
        read: dict[str, Value] = {}
        for _ in range(values):
            key = self._text(_MAX_KEY_BYTES)
            if key in read:
                raise ValueError(f"the key {key[:100]!r} appears twice")
            read[key] = self._value(key, self._take("I")[0])
        return self._with_tensors(read, [self._tensor() for _ in range(tensors)])

    def _with_tensors(self, read: dict[str, Value], tensors: list[_Tensor]) -> GgufHeader:
        alignment = read.get("general.alignment")
        step = alignment if isinstance(alignment, int) and 0 < alignment <= _MAX_ALIGNMENT else 32
        data_bytes = self._size - -(-self._at // step) * step
        tensors.sort(key=lambda tensor: tensor.offset)
        bounds = [*(tensor.offset for tensor in tensors), max(data_bytes, 0)]
        sizes: dict[str, int] = {}
        types: dict[str, int] = {}
        for tensor, end in zip(tensors, bounds[1:], strict=True):
            if tensor.name in sizes:
                raise ValueError(f"the tensor {tensor.name[:100]!r} appears twice")
            sizes[tensor.name] = end - tensor.offset
            if sizes[tensor.name] < (tensor.size_bytes or 0):
                raise ValueError("its tensors reach beyond its end, or into each other")
            types[tensor.kind] = types.get(tensor.kind, 0) + sizes[tensor.name]
        return GgufHeader(
            values=read,
            tensor_bytes=sizes,
            type_bytes=types,
            parameter_count=sum(tensor.count for tensor in tensors),
            header_bytes=self._at,
            text_counts=self._text_counts,
        )

    def _tensor(self) -> _Tensor:
        name = self._text(_MAX_NAME_BYTES)
        (dimensions,) = self._take("I")
        if dimensions > _MAX_DIMENSIONS:
            raise ValueError(f"the tensor {name[:100]!r} has {dimensions} dimensions")
        shape = self._take(f"{dimensions}Q")
        kind, offset = self._take("IQ")
        return _Tensor(name=name, count=math.prod(shape), kind_number=kind, offset=offset)

    def _value(self, key: str, kind: int) -> Value:
        if kind == _STRING:
            return self._text(self._size)
        if kind != _ARRAY:
            value: Value = self._take(_scalar(key, kind))[0]
            return value
        inner, count = self._take("IQ")
        if count > MAX_ITEMS:
            raise ValueError(f"an array states {count} items")
        if inner == _STRING:
            self._skip_texts(count)
            self._text_counts[key] = count
            return None
        if inner == _ARRAY:
            raise ValueError(f"the value {key[:100]!r} at byte {self._at} is an array of arrays")
        form = f"<{count}{_scalar(key, inner)}"
        begin = self._advance(struct.calcsize(form))
        return [*struct.unpack_from(form, self._data, begin)] if count <= _MAX_KEPT else None

    def _skip_texts(self, count: int) -> None:
        """Skip texts, a run of usual ones at once."""
        match = _run_of_texts().match
        for left in range(count, 0, -_RUN_TEXTS):
            found = match(self._data, self._at) if left >= _RUN_TEXTS else None
            if found is not None:
                self._at = found.end()
            else:
                self._skip_one_by_one(min(left, _RUN_TEXTS))

    def _skip_one_by_one(self, count: int) -> None:
        """Skip texts; what is not read yet is read when the loop comes to it."""
        length_at, data = struct.Struct("<Q").unpack_from, self._data
        at, left = self._at, count
        while left:
            self._at = at
            self._require(at + 8)
            texts = repeat(None, left)
            try:
                for _ in texts:
                    at += 8 + length_at(data, at)[0]
                left = 0
            except (struct.error, OverflowError):  # the next length is not read yet, or nothing is there
                if at > self._size:
                    raise ValueError("it ends in a text") from None
                left = length_hint(texts) + 1
        self._at = at
        self._require(at)

    def _text(self, max_bytes: int) -> str:
        (length,) = self._take("Q")
        if length > max_bytes:
            raise ValueError(f"a text states {length} bytes")
        begin = self._advance(length)
        return self._data[begin : self._at].decode("utf-8", "replace")

    def _take(self, form: str) -> tuple[Any, ...]:
        begin = self._advance(struct.calcsize(f"<{form}"))
        return struct.unpack_from(f"<{form}", self._data, begin)

    def _advance(self, count: int) -> int:
        """Move on, and return where the bytes begin that were passed; they have been read then."""
        begin = self._at
        self._require(begin + count)
        self._at = begin + count
        return begin

    def _require(self, end: int) -> None:
        """Read the file up to a position, in chunks."""
        if end <= len(self._data):
            return
        if end > self._size:
            raise ValueError("it ends in its header")
        if end > MAX_HEADER_BYTES:
            raise ValueError(f"its header is longer than {MAX_HEADER_BYTES // 2**20} MiB")
        while len(self._data) < end:
            chunk = self._file.read(min(_CHUNK_BYTES, self._size - len(self._data)))
            if not chunk:
                raise ValueError("it was cut off while it was read")
            self._data += chunk


def _scalar(key: str, kind: int) -> str:
    form = _SCALARS.get(kind)
    if form is None:
        raise ValueError(f"the value {key[:100]!r} has the type {kind}, which the format does not have")
    return form


@lru_cache(maxsize=1)
def _run_of_texts() -> re.Pattern[bytes]:
    """Return the pattern of a run of short texts, each after its length; it is exact, as lengths differ in a byte."""
    lengths = sorted(range(_RUN_MAX_BYTES + 1), key=lambda length: abs(length - _USUAL_BYTES))
    texts = (re.escape(length.to_bytes(8, "little")) + b".{%d}" % length for length in lengths)
    return re.compile(b"(?:%s){%d}" % (b"|".join(texts), _RUN_TEXTS), re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensor:
    """What the header states of a tensor."""

    name: str
    count: int
    kind_number: int
    offset: int

    @property
    def kind(self) -> str:
        known = TYPES.get(self.kind_number)
        return known[0] if known is not None else f"type {self.kind_number}"

    @property
    def size_bytes(self) -> int | None:
        """Bytes of its data, without padding; None for a type that is not known."""
        known = TYPES.get(self.kind_number)
        return -(-self.count // known[1]) * known[2] if known is not None else None
