"""The packaged files of every version are the ones that were trained and measured."""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import vlmhyperbench_tiny_doc_vlm as tiny
from tests.support.wording import Wording

FILES = [(version, name) for version in tiny.versions() for name in tiny.names(version)]
WEIGHTS = [(version, name) for version, name in FILES if name.endswith((".gguf", ".safetensors"))]


@pytest.mark.parametrize(("version", "name"), FILES)
def test_every_listed_file_has_its_declared_hash(version: str, name: str) -> None:
    assert hashlib.sha256(tiny.path(name, version).read_bytes()).hexdigest() == tiny.sha256(name, version)


@pytest.mark.parametrize("version", tiny.versions())
def test_every_file_in_the_folder_is_listed(version: str) -> None:
    folder = tiny.path("config.json", version).parent
    assert {entry.name for entry in folder.iterdir()} == {*tiny.names(version), "SHA256SUMS"}


def test_every_folder_of_files_is_a_version_and_the_first_is_meant_where_none_is_named() -> None:
    first = tiny.path("config.json").parent
    assert sorted(entry.name for entry in first.parent.iterdir()) == tiny.versions()
    assert first.name == tiny.FIRST == tiny.versions()[0] == "0.1"


@pytest.mark.parametrize("version", tiny.versions())
def test_the_weights_come_in_four_precisions_and_one_projector(version: str) -> None:
    assert {name for of, name in WEIGHTS if of == version} == {
        "model.safetensors",
        "tiny-doc-vlm-f16.gguf",
        "tiny-doc-vlm-mmproj-f16.gguf",
        "tiny-doc-vlm-q4_0.gguf",
        "tiny-doc-vlm-q8_0.gguf",
    }


def test_an_unknown_file_is_refused_with_the_list_of_known_ones(wording: Wording) -> None:
    with pytest.raises(KeyError) as refused:
        tiny.path("q2.gguf")
    wording(refused.value)
    with pytest.raises(KeyError, match=r"\.\./SHA256SUMS"):
        tiny.sha256("../SHA256SUMS")


@pytest.mark.parametrize("version", ["9.9", "", ".", "0.1/..", "../files/0.1"])
def test_an_unknown_version_is_refused_with_the_list_of_known_ones(version: str) -> None:
    with pytest.raises(KeyError, match=re.escape(f"no version {version!r}. It has: 0.1")):
        tiny.path("config.json", version)


def test_every_gguf_file_starts_with_its_magic_and_a_version() -> None:
    for version, name in (file for file in WEIGHTS if file[1].endswith(".gguf")):
        assert struct.unpack("<4sI", tiny.path(name, version).read_bytes()[:8]) == (b"GGUF", 3), (version, name)


@pytest.mark.parametrize("version", tiny.versions())
def test_the_safetensors_hold_the_advertised_number_of_parameters(version: str) -> None:
    file = tiny.path("model.safetensors", version).read_bytes()
    assert len(file) <= 8_000_000
    header = json.loads(file[8 : 8 + struct.unpack("<Q", file[:8])[0]])
    shapes = [tensor["shape"] for key, tensor in header.items() if key != "__metadata__"]
    parameters = sum(map(math.prod, shapes))
    assert round(parameters / 1e6, 2) == 1.87


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import vlmhyperbench_tiny_doc_vlm; print(*set(sys.modules) - before)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "PIL", "torch", "transformers", "xllamacpp"} & {name.partition(".")[0] for name in out}


def test_the_model_card_states_every_hash_of_a_weights_file() -> None:
    card = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = set(re.findall(r"\b[0-9a-f]{64}\b", card))
    assert stated == {tiny.sha256(name, version) for version, name in WEIGHTS}
