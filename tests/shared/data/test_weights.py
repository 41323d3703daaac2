"""A model's files: found without importing anything, and verified."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import vlmhyperbench_tiny_doc_vlm
from tests.support.wording import Wording
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.weights import files_for_engine, locate, verify
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench_deepseek_ocr.adapter import DeepSeekOcr
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend, EngineLaunch
from vlmhyperbench_sglang.adapter import SGLang
from vlmhyperbench_transformers.adapter import Transformers
from vlmhyperbench_vllm.adapter import Vllm

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


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "models", max_bytes=2**20)


def _folder(tmp_path: Path) -> tuple[Path, list[ModelFile]]:
    """Return a folder with a pinned model, and with files that may change its answers and are not pinned."""
    folder = tmp_path / "mine"
    folder.mkdir()
    config = b'{"dtype": "float32"}'
    pinned = {"config.json": config, "model.safetensors": b"\0" * 8, "tokenizer.json": b"{}"}
    beside = {"chat_template.jinja": b"x", "generation_config.json": b"{}", "added_tokens.json": b"{}", "m.py": b"x"}
    for name, content in {**pinned, **beside}.items():
        (folder / name).write_bytes(content)
    return folder, [
        ModelFile(role=name, location=str(folder / name), sha256=hashlib.sha256(content).hexdigest())
        for name, content in pinned.items()
    ]


@pytest.mark.parametrize("adapter", [Transformers, Vllm, SGLang, DeepSeekOcr])
def test_an_engine_that_reads_a_folder_gets_one_with_the_pinned_files_only(
    adapter: type[Backend], cache: ModelCache, tmp_path: Path
) -> None:
    folder, files = _folder(tmp_path)
    load = LoadRequest(model="mine", backend_class="e", files=files_for_engine(files, cache))
    launch = adapter().plan_engine(load, port=1, python="python")
    assert isinstance(launch, EngineLaunch)
    assert not any(str(folder) in word for word in launch.argv)
    [read] = {Path(word) for word in launch.argv if word.startswith(str(cache.links))}
    assert {path.name: path.read_bytes() for path in read.iterdir()} == {
        file.role: Path(file.location).read_bytes() for file in files
    }


def test_the_folder_of_an_engine_is_the_same_for_the_same_files_and_loses_what_is_put_into_it(
    cache: ModelCache, tmp_path: Path
) -> None:
    folder, files = _folder(tmp_path)
    first = files_for_engine(files, cache)
    home = Path(first["config.json"]).parent
    (home / "chat_template.jinja").write_text("put there")
    (home / "custom").mkdir()
    (home / "config.json").unlink()
    (home / "config.json").symlink_to(folder / "generation_config.json")
    assert files_for_engine(files, cache) == first
    assert sorted(path.name for path in home.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (home / "config.json").readlink() == folder / "config.json"
    assert files_for_engine(files[:2], cache)["config.json"] != first["config.json"]


def test_files_with_other_roles_than_their_names_stay_where_they_are(cache: ModelCache, tmp_path: Path) -> None:
    (tmp_path / "w.gguf").write_bytes(b"GGUF")
    files = [_file(str(tmp_path / "w.gguf"), b"GGUF")]
    assert files_for_engine(files, cache) == {"weights": str(tmp_path / "w.gguf")}
    assert files_for_engine([], cache) == {}


def test_room_for_a_model_is_not_made_by_removing_links(cache: ModelCache, tmp_path: Path) -> None:
    _, files = _folder(tmp_path)
    linked = files_for_engine(files, cache)
    with pytest.raises(Conflict) as full, cache.making("0" * 64, 2**21):
        pass
    assert full.value.code == "no_room"
    assert all(Path(path).is_file() for path in linked.values())
