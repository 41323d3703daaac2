"""A model's files: found without importing anything, and verified."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import vlmhyperbench_tiny_doc_vlm
from tests.support.wording import Wording
from vlmhyperbench.data.weights import locate, verify
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound

TINY = "package:vlmhyperbench-tiny-doc-vlm"


def _file(location: str, content: bytes) -> ModelFile:
    return ModelFile(role="weights", location=location, sha256=hashlib.sha256(content).hexdigest())


def test_a_file_of_a_package_is_found_by_its_distribution() -> None:
    assert locate(f"{TINY}/files/0.1/config.json").name == "config.json"


def test_an_absolute_path_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "w.gguf").write_bytes(b"GGUF")
    assert locate(str(tmp_path / "w.gguf")) == tmp_path / "w.gguf"


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("weights/w.gguf", InvalidInput),
        ("/no/such/w.gguf", NotFound),
        (f"{TINY}/files/0.1/q2.gguf", NotFound),
        (f"{TINY}/files", NotFound),
        (f"{TINY}/../../pyproject.toml", InvalidInput),
        (f"{TINY}//etc/passwd", InvalidInput),
        ("package:no-such-package/w.gguf", NotFound),
        ("package:../etc/w.gguf", NotFound),
        ("package:json.decoder/w.gguf", NotFound),
    ],
)
def test_what_cannot_be_found_says_why(location: str, error: type[Exception], wording: Wording) -> None:
    with pytest.raises(error) as refused:
        locate(location)
    wording(refused.value, PACKAGE=Path(vlmhyperbench_tiny_doc_vlm.__file__).parent)


def test_a_file_with_the_pinned_hash_is_returned(tmp_path: Path) -> None:
    (tmp_path / "w.gguf").write_bytes(b"GGUF")
    assert verify(_file(str(tmp_path / "w.gguf"), b"GGUF")) == tmp_path / "w.gguf"


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "w.gguf").write_bytes(b"GGUF2")
    with pytest.raises(Conflict) as refused:
        verify(_file(str(tmp_path / "w.gguf"), b"GGUF"))
    wording(refused.value)
