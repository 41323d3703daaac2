"""The packaged files are the ones that were trained and measured."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import vlmhyperbench_tiny_doc_vlm as tiny


@pytest.mark.parametrize("name", tiny.names())
def test_every_listed_file_has_its_declared_hash(name: str) -> None:
    assert hashlib.sha256(tiny.path(name).read_bytes()).hexdigest() == tiny.sha256(name)


def test_every_file_in_the_folder_is_listed() -> None:
    folder = tiny.path("config.json").parent
    assert {entry.name for entry in folder.iterdir()} == {*tiny.names(), "SHA256SUMS"}


def test_the_weights_come_in_four_precisions_and_one_projector() -> None:
    weights = {name for name in tiny.names() if name.endswith((".gguf", ".safetensors"))}
    assert weights == {
        "model.safetensors",
        "tiny-doc-vlm-f16.gguf",
        "tiny-doc-vlm-mmproj-f16.gguf",
        "tiny-doc-vlm-q4_0.gguf",
        "tiny-doc-vlm-q8_0.gguf",
    }


def test_an_unknown_file_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no file 'q2.gguf'.*tiny-doc-vlm-q4_0\.gguf"):
        tiny.path("q2.gguf")
    with pytest.raises(KeyError, match=r"\.\./SHA256SUMS"):
        tiny.sha256("../SHA256SUMS")


def test_every_gguf_file_starts_with_its_magic_and_a_version() -> None:
    for name in (name for name in tiny.names() if name.endswith(".gguf")):
        magic, version = struct.unpack("<4sI", tiny.path(name).read_bytes()[:8])
        assert (magic, version) == (b"GGUF", 3), name


def test_the_safetensors_hold_the_advertised_number_of_parameters() -> None:
    with tiny.path("model.safetensors").open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    shapes = [tensor["shape"] for key, tensor in header.items() if key != "__metadata__"]
    parameters = sum(_product(shape) for shape in shapes)
    assert round(parameters / 1e6, 2) == 1.87


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import vlmhyperbench_tiny_doc_vlm; print(*set(sys.modules) - before)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "PIL", "torch", "transformers", "xllamacpp"} & {name.partition(".")[0] for name in out}


def test_the_model_card_states_every_hash_of_a_weights_file() -> None:
    card = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = set(re.findall(r"\b[0-9a-f]{64}\b", card))
    assert stated == {tiny.sha256(name) for name in tiny.names() if name.endswith((".gguf", ".safetensors"))}


def _product(shape: list[int]) -> int:
    result = 1
    for length in shape:
        result *= length
    return result
