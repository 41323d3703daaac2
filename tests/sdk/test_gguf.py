"""A GGUF header is read in bounded time and memory, whatever it states of itself."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import gguf as files
from tests.support.gguf import entry, header, tensor, text
from tests.support.wording import Wording
from vlmhyperbench_sdk import gguf
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gguf import GgufHeader, read_header, read_weights

GIB = 2**30


ARCHITECTURE = entry("general.architecture", 8, text("llama"))
CONTEXT = entry("llama.context_length", 4, struct.pack("<I", 4096))
TOKENS = entry("tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("") + text("ccc"))
SCORES = entry("scores", 9, struct.pack("<IQ3f", 6, 3, 0.5, 1.0, 2.0))
TENSORS = [tensor("output.weight", (32, 4), 1, 288), tensor("token_embd.weight", (64, 4), 8, 0)]
WHOLE = header([ARCHITECTURE, TOKENS, SCORES, CONTEXT], TENSORS)
DATA = WHOLE + b"\0" * (-len(WHOLE) % 32) + b"\0" * (288 + 256)


def read(folder: Path, data: bytes) -> GgufHeader:
    path = folder / "m.gguf"
    path.write_bytes(data)
    return read_header(path)


def test_a_header_says_what_the_model_is(tmp_path: Path) -> None:
    made = read(tmp_path, DATA)
    assert made.values == {
        "general.architecture": "llama",
        "tokens": None,
        "scores": [0.5, 1.0, 2.0],
        "llama.context_length": 4096,
    }
    assert made.text_counts == {"tokens": 3}
    assert made.tensor_bytes == {"token_embd.weight": 288, "output.weight": 256}
    assert made.type_bytes == {"Q8_0": 288, "F16": 256}
    assert (made.quantization, made.parameter_count, made.whole("context_length")) == ("Q8_0", 384, 4096)
    assert (made.is_projector, made.whole("block_count"), made.header_bytes) == (False, None, len(WHOLE))


def test_a_file_without_tensors_has_no_quantization(tmp_path: Path) -> None:
    assert read(tmp_path, header([ARCHITECTURE], [])).quantization is None
    unknown = header([], [tensor("t", (1,), 99, 0)])
    assert read(tmp_path, unknown + b"\0" * 64).quantization == "type 99"


@pytest.mark.parametrize(
    ("stated", "kinds", "named"),
    [
        (15, {12: 144, 14: 210 * 9}, "Q4_K_M"),
        (7, {1: 512, 8: 34}, "Q8_0"),
        (22, {18: 98, 0: 256}, "IQ3_XS"),
        (38, {39: 17, 8: 34 * 2}, "MXFP4_MOE"),
        (15, {8: 34 * 8}, "Q8_0"),
        (0, {8: 34 * 8}, "Q8_0"),
        (1024, {8: 34 * 8}, "Q8_0"),
        (None, {12: 144, 14: 210 * 9}, "Q6_K"),
    ],
)
def test_a_quantisation_is_what_the_file_states_if_it_has_such_tensors(
    tmp_path: Path, stated: int | None, kinds: dict[int, int], named: str
) -> None:
    tensors, offset = [], 0
    for kind, size in kinds.items():
        _, values, block = gguf.TYPES[kind]
        tensors.append(tensor(f"t{kind}", (size // block * values,), kind, offset))
        offset += -(-size // 32) * 32
    said = [] if stated is None else [entry("general.file_type", 4, struct.pack("<I", stated))]
    whole = header([ARCHITECTURE, *said], tensors)
    assert read(tmp_path, whole + b"\0" * (-len(whole) % 32) + b"\0" * offset).quantization == named


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Q4_K_M", "Q4_K"),
        ("q4_k", "Q4_K"),
        ("UD-Q4_K_XL", "Q4_K"),
        ("Q4_0", "Q4_0"),
        ("IQ4_XS", "IQ4"),
        ("BF16", "BF16"),
        ("F16", "F16"),
        ("MXFP4_MOE", "MXFP4"),
        ("type 99", "type 99"),
    ],
)
def test_quantisations_of_one_family_have_tensors_of_one_type(name: str, family: str) -> None:
    assert gguf.quantization_family(name) == family


def at(position: int, form: str, value: int) -> bytes:
    """Return the file with a number in it replaced."""
    return DATA[:position] + struct.pack(form, value) + DATA[position + struct.calcsize(form) :]


LIES = {
    "nothing": b"",
    "magic": b"GGML" + DATA[4:],
    "version 1": at(4, "<I", 1),
    "big endian": at(4, ">I", 3),
    "tensors": at(8, "<Q", 2**63),
    "more tensors than there are": at(8, "<Q", 3),
    "values": at(16, "<Q", 2**64 - 1),
    "length of a key": at(24, "<Q", 2**62),
    "type of a value": at(24 + 8 + 20, "<I", 77),
    "length of a text": at(24 + 8 + 20 + 4, "<Q", 2**40),
    "items of an array": header([entry("a", 9, struct.pack("<IQ", 0, 2**60))], []) + b"\0" * 64,
    "texts of an array": header([entry("a", 9, struct.pack("<IQ", 8, 2**23))], []) + b"\0" * 64,
    "text in an array that is longer than memory": DATA[:114] + b"\x00\x80" + DATA[116:],
    "text in an array": header([entry("a", 9, struct.pack("<IQQ", 8, 2, 2**50))], []) + b"\0" * 64,
    "arrays in arrays": header([entry("a", 9, struct.pack("<IQ", 9, 1) * 1000)], []) + b"\0" * 64,
    "the same key": header([ARCHITECTURE, ARCHITECTURE], []),
    "the same tensor": header([], [tensor("t", (1,), 0, 0), tensor("t", (1,), 0, 32)]) + b"\0" * 96,
    "dimensions": header([], [text("t") + struct.pack("<I", 2**31)]) + b"\0" * 64,
    "a tensor beyond the end": header([], [tensor("t", (2**40,), 0, 0)]) + b"\0" * 64,
    "an offset beyond the end": header([], [tensor("t", (1,), 0, 2**60)]) + b"\0" * 64,
    "a tensor into another": header([], [tensor("a", (99,), 0, 0), tensor("b", (1,), 0, 32)]) + b"\0" * 999,
    "cut off in the data": DATA[:-1],
    "cut off in the header": DATA[:100],
}


@pytest.mark.parametrize("name", LIES)
def test_a_header_that_lies_is_refused_without_taking_memory(tmp_path: Path, name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            read(tmp_path, LIES[name])
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


NO_WHOLE_MODEL = {
    "cut": DATA[:100],
    "arrays": header([entry("a", 9, struct.pack("<IQ", 9, 1) * 2)], []) + b"\0" * 64,
    "unknown": header([entry("a", 9, struct.pack("<IQ", 77, 1))], []) + b"\0" * 64,
    "part": files.part(0, 3),
    "vocabulary": files.vocabulary(),
}


def test_a_file_that_is_no_whole_model_is_refused_by_its_name_place_and_cure(tmp_path: Path, wording: Wording) -> None:
    for name, data in NO_WHOLE_MODEL.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(data)
        with pytest.raises(InvalidInput) as refused:
            read_weights(path)
        wording(refused.value)


def test_a_file_that_was_split_into_one_is_a_whole_model(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(files.part(0, 1))
    assert read_weights(path).part is None


def test_a_sparse_file_of_zeros_ends_soon(tmp_path: Path) -> None:
    for start in (
        struct.pack("<4sIQQ", b"GGUF", 3, 0, gguf.MAX_VALUES),
        struct.pack("<4sIQQ", b"GGUF", 3, gguf.MAX_TENSORS, 0),
        header([entry("a", 9, struct.pack("<IQ", 8, gguf.MAX_ITEMS + 1))], []),
    ):
        path = tmp_path / "sparse.gguf"
        path.write_bytes(start)
        with path.open("r+b") as file:
            file.truncate(40 * GIB)
        with pytest.raises(InvalidInput):
            read_header(path)


def test_a_header_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "MAX_HEADER_BYTES", 2 * 2**20)
    long = entry("template", 8, text("x" * 3 * 2**20))
    with pytest.raises(InvalidInput):
        read(tmp_path, header([long], []))


def test_a_vocabulary_of_several_chunks_is_skipped(tmp_path: Path) -> None:
    tokens = b"".join(text("token" * 10) for _ in range(50_000))
    entries = [entry("tokens", 9, struct.pack("<IQ", 8, 50_000) + tokens), CONTEXT, ARCHITECTURE]
    assert read(tmp_path, header(entries, [])).whole("context_length") == 4096


@pytest.mark.parametrize("count", [511, 512, 513, 1025])
@pytest.mark.parametrize("odd", [0, 63, 64, 255, 256, 70_000])
def test_texts_of_any_length_are_skipped_exactly(tmp_path: Path, count: int, odd: int) -> None:
    lengths = [no % 12 for no in range(count)]
    lengths[count // 2] = odd
    tokens = b"".join(text("t" * length) for length in lengths)
    entries = [entry("tokens", 9, struct.pack("<IQ", 8, count) + tokens), CONTEXT, ARCHITECTURE]
    assert read(tmp_path, header(entries, [])).whole("context_length") == 4096


def test_a_file_that_is_cut_off_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(DATA[:100])
    with path.open("rb") as file, pytest.raises(ValueError):
        gguf._Reader(file, len(DATA)).header()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=9)), max_size=4),
    st.integers(0, len(DATA)),
)
def test_bytes_of_any_kind_are_read_or_refused(tmp_path: Path, changes: list[tuple[int, bytes]], end: int) -> None:
    data = bytearray(DATA)
    for position, replaced in changes:
        data[position : position + len(replaced)] = replaced
    for content in (bytes(data), bytes(data[:end])):
        with contextlib.suppress(InvalidInput):
            made = read(tmp_path, content)
            assert made.header_bytes <= len(content)
            assert all(0 <= size <= len(content) for size in made.tensor_bytes.values())
