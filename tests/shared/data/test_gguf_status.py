"""A GGUF model is available, missing, invalid or too large, with the reason; a folder is scanned by its headers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from vlmhyperbench.data import gguf_status
from vlmhyperbench.data.gguf_status import GgufStatus, gguf_below, scan_folder, status_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.protocols import MemoryEstimate
from vlmhyperbench_tiny_doc_vlm import path as packaged

WEIGHTS, PROJECTOR = (Path(packaged(f"tiny-doc-vlm-{name}.gguf", "0.2")) for name in ("q8_0", "mmproj-f16"))
GIB = 2**30


def needs(files: Mapping[str, Path]) -> MemoryEstimate:
    return MemoryEstimate(device_bytes=0, host_bytes=2 * GIB, source="static", knobs=("n_ctx",))


def status(files: Mapping[str, Path], *, free_gib: float = 8) -> GgufStatus:
    free = FreeMemory(host_bytes=int(free_gib * GIB), device_bytes=None)
    return status_of("m", files, estimate=needs, free=free)


def test_a_model_that_fits_is_available_with_what_its_header_says() -> None:
    made = status({"mmproj": PROJECTOR, "weights": WEIGHTS})
    assert (made.status, made.reason, made.quantization, made.context_tokens) == ("available", None, "Q8_0", 1024)
    assert (made.architecture, made.need_bytes, made.estimate_source) == ("llama", 2 * GIB, "static")
    assert made.size_bytes == WEIGHTS.stat().st_size + PROJECTOR.stat().st_size
    assert made.parameter_count is not None
    assert made.parameter_count > 100_000


def test_a_model_that_needs_more_than_is_free_is_too_large() -> None:
    made = status({"weights": WEIGHTS}, free_gib=1)
    assert made.status == "too_large"
    assert made.reason == (
        "It needs 2.0 GiB of the machine's memory, of which 1.0 GiB may be used. "
        "Change n_ctx in engine_params, choose a smaller or more quantised model, or free memory."
    )


def test_a_file_that_is_not_there_is_missing_and_one_that_is_no_gguf_is_invalid(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(WEIGHTS.read_bytes()[:-1])
    assert status({"weights": WEIGHTS, "mmproj": tmp_path / "none.gguf"}).status == "missing"
    for files in ({"weights": cut}, {"weights": WEIGHTS, "mmproj": cut}):
        made = status(files)
        assert (made.status, str(cut) in (made.reason or "")) == ("invalid", True)


def test_a_chat_template_is_no_gguf_file_and_must_be_there(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    files = {"chat_template": template, "weights": WEIGHTS}
    assert status(files).status == "missing"
    template.write_text("{{ messages }}")
    assert (status(files).status, status(files).quantization) == ("available", "Q8_0")


def test_what_the_adapter_refuses_or_cannot_be_read_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(files: Mapping[str, Path]) -> MemoryEstimate:
        raise InvalidInput("n_ctx is too small.", cure="Give more.")

    free = FreeMemory(host_bytes=None, device_bytes=None)
    made = status_of("m", {"weights": WEIGHTS}, estimate=refuses, free=free)
    assert (made.status, made.reason) == ("invalid", "n_ctx is too small. Give more.")

    def fails(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(gguf_status, "read_weights", fails)
    assert status({"weights": WEIGHTS}).status == "invalid"


def test_a_folder_is_scanned_and_links_out_of_it_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "inner").mkdir(parents=True)
    shutil.copy(WEIGHTS, folder / "inner" / "b.gguf")
    shutil.copy(PROJECTOR, folder / "c.gguf")
    (folder / "a.gguf").write_bytes(b"no model")
    (folder / "notes.txt").write_bytes(b"no model")
    (folder / "out.gguf").symlink_to(WEIGHTS)
    rows = scan_folder(folder, estimate=needs, free=FreeMemory(host_bytes=GIB, device_bytes=None))
    assert [(row.name, row.status, row.is_projector) for row in rows] == [
        ("a.gguf", "invalid", False),
        ("c.gguf", "available", True),
        ("inner/b.gguf", "too_large", False),
    ]


def test_hidden_folders_links_to_folders_and_folders_beyond_a_number_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_status, "MAX_FOLDERS", 3)
    for folder in ("a", "a/deep", "b", ".hidden", "late"):
        (tmp_path / folder).mkdir()
        shutil.copy(WEIGHTS, tmp_path / folder / "m.gguf")
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    assert [str(path.relative_to(tmp_path)) for path in gguf_below(tmp_path)] == ["a/m.gguf", "b/m.gguf"]
    monkeypatch.setattr(gguf_status, "MAX_FOLDERS", 5)
    assert [path.parent.name for path in gguf_below(tmp_path)] == ["deep", "a", "b", "late"]
