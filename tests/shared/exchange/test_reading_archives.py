"""Zips of strangers: whole, damaged, too large, too dense."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import pytest

from tests.shared.exchange.reading import DATA, answers, taken, write
from tests.shared.exchange.zips import HEADER, frame, zipped, zstandard
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.exchange.archive import open_archive

MIB = 1024 * 1024
TEXT = '{"a": "я\u2028\\n"}\n'.encode()


def read(path: Path, name: str, **limits: int) -> bytes:
    """Read one entry."""
    with open_archive(path, **limits) as archive:
        return archive.read(name)


@pytest.mark.parametrize("blocks", [(TEXT,), (TEXT[:5], TEXT[5:]), (TEXT[:-1],), (b"[", *[(b" ", 100_000)] * 3, b"]")])
def test_zstandard_is_unpacked_to_the_byte(tmp_path: Path, blocks: tuple[bytes | tuple[bytes, int], ...]) -> None:
    whole = b"".join(answer if isinstance(answer, bytes) else answer[0] * answer[1] for answer in blocks)
    path = zstandard(tmp_path / "a", "x.json", frame(*blocks), size=len(whole), crc=zlib.crc32(whole))
    assert read(path, "x.json") == whole


def test_zstandard_in_several_frames_and_behind_one_to_skip_is_unpacked(tmp_path: Path) -> None:
    packed = frame(TEXT[:4]) + b"\x50\x2a\x4d\x18\3\0\0\0abc" + frame(TEXT[4:])
    path = zstandard(tmp_path / "a", "x.json", packed, size=len(TEXT), crc=zlib.crc32(TEXT))
    assert read(path, "x.json") == TEXT


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        (frame(TEXT), len(TEXT) + 5),
        (frame(TEXT.replace(b"a", b"b")), len(TEXT)),
        (frame(TEXT)[:-3], len(TEXT)),
        (frame(TEXT)[:9], len(TEXT)),
        (TEXT, len(TEXT)),
        (frame(b"\xff" * 9), 9),
        (b"", 1),
    ],
    ids=["size", "checksum", "end", "beginning", "format", "encoding", "empty"],
)
def test_damaged_zstandard_is_refused(tmp_path: Path, packed: bytes, size: int, wording: Wording) -> None:
    path = zstandard(tmp_path / "a", "x.json", packed, size=size, crc=zlib.crc32(TEXT))
    with pytest.raises(InvalidInput) as refused:
        read(path, "x.json")
    assert refused.value.code == "damaged"
    wording(refused.value)


def test_a_bomb_of_zstandard_that_lies_about_its_size_is_refused_by_its_blocks(
    tmp_path: Path, wording: Wording
) -> None:
    packed = frame(*[(b" ", 128 * 1024)] * 4096)
    assert len(packed) < 17_000
    path = zstandard(tmp_path / "a", "x.json", packed, size=1000, crc=0)
    with pytest.raises(InvalidInput) as refused:
        read(path, "x.json")
    wording(refused.value)
    assert refused.value.code == "too_large"


def test_an_entry_that_is_too_large_is_refused_before_it_is_unpacked(tmp_path: Path, wording: Wording) -> None:
    path = zipped(tmp_path / "a", {"x.json": bytes(65 * MIB)})
    assert path.stat().st_size < 100_000
    with pytest.raises(InvalidInput) as refused:
        read(path, "x.json")
    wording(refused.value)


def test_an_entry_that_is_too_dense_is_refused_and_a_small_one_is_not(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(zipped(tmp_path / "a", {"x.json": bytes(8 * MIB)}), "x.json")
    wording(refused.value)
    assert len(read(zipped(tmp_path / "b", {"x.json": bytes(MIB)}), "x.json")) == MIB


def test_entries_that_are_too_large_together_are_refused(tmp_path: Path, wording: Wording) -> None:
    path = zipped(tmp_path / "a", {str(no): bytes(MIB) for no in range(5)})
    with pytest.raises(InvalidInput) as refused:
        read(path, "0", max_total_bytes=4 * MIB)
    wording(refused.value)


def test_an_entry_that_unpacks_to_more_than_it_says_is_refused(tmp_path: Path, wording: Wording) -> None:
    path = zipped(tmp_path / "a", {"x.json": bytes(8 * MIB)})
    whole = path.read_bytes()
    path.write_bytes(whole.replace((8 * MIB).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    with pytest.raises(InvalidInput) as refused:
        read(path, "x.json")
    wording(refused.value)


def test_encrypted_entries_and_other_compressions_are_refused(tmp_path: Path, wording: Wording) -> None:
    path = zipped(tmp_path / "a", {"x.json": b"1"}, method=zipfile.ZIP_LZMA)
    with pytest.raises(InvalidInput) as refused:
        read(path, "x.json")
    wording(refused.value)
    path = zipped(tmp_path / "b", {"x.json": b"1"}, method=zipfile.ZIP_STORED)
    whole = bytearray(path.read_bytes())
    whole[whole.find(b"PK\1\2") + 8] |= 1
    with pytest.raises(InvalidInput) as refused:
        read(write(path, bytes(whole)), "x.json")
    wording(refused.value)


def test_a_zip_that_was_cut_off_anywhere_is_refused(tmp_path: Path, wording: Wording) -> None:
    whole = (DATA / "inspect_ai-0.3.285.eval").read_bytes()
    for size in range(40, len(whole) - 1, 97):
        with pytest.raises(InvalidInput) as refused:
            answers(write(tmp_path / "cut.eval", whole[:size]))
        assert refused.value.code == "cut_off"
    wording(refused.value)


def test_every_byte_that_changed_is_noticed_or_makes_no_difference(tmp_path: Path) -> None:
    true = DATA / "inspect_ai-0.3.285.eval"
    whole = true.read_bytes()
    good = [(answer.key, answer.repeat, answer.text, answer.reported) for answer in answers(true)]
    refused = 0
    for at in range(0, len(whole), 61):
        path = write(tmp_path / "a.eval", whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            file, found = taken(path)
        except InvalidInput:
            refused += 1
            continue
        same = [(answer.key, answer.repeat, answer.text, answer.reported) for answer in found] == good
        assert same or any("5 of 6" in note for note in file.notes)
    assert refused > 50


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read(tmp_path / "none.zip", "x")


def test_of_two_entries_with_one_name_the_last_counts(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a", {"header.json": HEADER})
    with zipfile.ZipFile(path, "a") as made, pytest.warns(UserWarning, match="Duplicate name"):
        made.writestr("header.json", "{}")
    with open_archive(path) as archive:
        assert (archive.names, archive.replaced, archive.read("header.json")) == (("header.json",), 1, b"{}")
