"""Models without a registry entry: GGUF files, folders and repositories of a hub, from the command to the run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vlmhyperbench_tiny_doc_vlm
from tests.support.gguf import vocabulary
from tests.support.hub import TOKEN, LoopbackHub, serve_hub
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home

TINY = Path(vlmhyperbench_tiny_doc_vlm.__file__).parent / "files" / "0.2"
GGUF, MMPROJ = "tiny-doc-vlm-q4_0.gguf", "tiny-doc-vlm-mmproj-f16.gguf"
FOLDER = {path.name: path.read_bytes() for path in TINY.iterdir() if path.suffix in {".json", ".safetensors", ".jinja"}}
TASK = ("--task", "document-qa", "--limit", "2")
FOLDERS = """\
description: Runs a model in the format of transformers; its files are not read.
default_backend_class: simulated
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A stack without workers, in which submitted runs wait, and a backend for folders."""
    made = Home(tmp_path_factory.mktemp("home"))
    backends = made.root / "registries" / "backends"
    backends.mkdir(parents=True)
    (backends / "folders.yaml").write_text(FOLDERS)
    control.up(made, host="127.0.0.1", port=0, services=("api", "scheduler"))
    yield made
    control.kill(made)


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with serve_hub() as served:
        served.hold("org/tiny-GGUF", {name: (TINY / name).read_bytes() for name in (GGUF, MMPROJ)})
        served.hold("org/words", {"words.gguf": vocabulary()})
        served.hold("org/tiny", {**FOLDER, "onnx/model.onnx": b"other", "README.md": b"# tiny"})
        yield served


def _run(home: Home, hub: LoopbackHub | None, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VLMHB_", "HF_"))}
    endpoint = {"HF_ENDPOINT": hub.url} if hub is not None else {}
    isolated = {"HF_HOME": str(home.root / "hf"), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**environment, **isolated, **endpoint, "VLMHB_HOME": str(home.root), **env},
    )


def _data(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]


def _target(home: Home, hub: LoopbackHub | None, *arguments: str) -> dict[str, Any]:
    target: dict[str, Any] = _data(_run(home, hub, "run", *arguments, *TASK, "--detach", "--json"))["spec"]["target"]
    return target


def _code(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode in {2, 3}, done.stderr
    assert "Traceback" not in done.stderr
    code: str = json.loads(done.stdout)["data"]["code"]
    return code


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_gguf_file_needs_no_entry(home: Home) -> None:
    target = _target(home, None, "--model", f"gguf:{TINY / GGUF}", "--mmproj", str(TINY / MMPROJ))
    assert (target["model"], target["backend"]) == ("tiny-doc-vlm-q4_0", "llamacpp")
    assert {file["role"]: file["location"] for file in target["files"]} == {
        "weights": str(TINY / GGUF),
        "mmproj": str(TINY / MMPROJ),
    }


def test_a_folder_needs_no_entry_and_every_file_is_pinned_by_its_name(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    for name, content in FOLDER.items():
        (folder / name).write_bytes(content)
    (folder / "notes.md").write_text("not a part of the model")
    target = _target(home, None, "--model", f"folder:{folder}", "--backend", "folders")
    assert target["model"] == "reader"
    assert {file["role"]: file["sha256"] for file in target["files"]} == {
        name: _sha256(content) for name, content in FOLDER.items()
    }
    assert {file["location"] for file in target["files"]} == {str(folder / name) for name in FOLDER}
    assert target["license"] is None
    assert "licence: unknown" in _run(home, None, "models", "show", "reader").stdout.splitlines()
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    stated = _target(home, None, "--model", f"folder:{folder}", "--backend", "folders")
    assert stated == {**target, "license": "apache-2.0"}


@pytest.mark.parametrize(
    ("file", "content", "code"),
    [
        ("config.json", None, "weights_missing"),
        ("model.safetensors", None, "weights_missing"),
        ("model.safetensors", FOLDER["model.safetensors"][:-9], "weights_damaged"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1", "weights_damaged"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "part-2.safetensors"}}', "weights_missing"),
        ("model.safetensors.index.json", b"[]", "weights_damaged"),
    ],
)
def test_a_folder_without_whole_weights_is_refused(
    home: Home, tmp_path: Path, file: str, content: bytes | None, code: str
) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    for name, whole in {**FOLDER, file: content}.items():
        if whole is not None:
            (folder / name).write_bytes(whole)
    assert (
        _code(_run(home, None, "run", "--model", f"folder:{folder}", "--backend", "folders", *TASK, "--json")) == code
    )


def test_a_repository_is_fetched_pinned_by_its_commit_and_run(home: Home, hub: LoopbackHub) -> None:
    commit = hub.repositories["org/tiny"].commit
    target = _target(home, hub, "--model", "hf:org/tiny", "--backend", "folders")
    assert (target["model"], target["license"]) == (f"tiny-{commit[:8]}", "apache-2.0")
    assert {file["location"] for file in target["files"]} == {f"hub:org/tiny@{commit}/{name}" for name in FOLDER}
    assert {file["sha256"] for file in target["files"]} == set(map(_sha256, FOLDER.values()))
    asked = len(hub.requests)
    assert _target(home, hub, "--model", target["model"]) == target
    assert len(hub.requests) == asked  # what is fetched and pinned costs no request


def test_a_gguf_file_of_a_repository_is_fetched_with_its_projector(home: Home, hub: LoopbackHub) -> None:
    target = _target(home, hub, "--model", f"hf:org/tiny-GGUF/{GGUF}@v1.0")
    assert target["backend"] == "llamacpp"
    assert {file["role"]: file["location"].rpartition("/")[2] for file in target["files"]} == {
        "weights": GGUF,
        "mmproj": MMPROJ,
    }


def test_an_entry_that_names_a_repository_is_pinned_by_its_first_use(home: Home, hub: LoopbackHub) -> None:
    entry = home.root / "registries" / "models" / "reader-of-a-hub.yaml"
    entry.parent.mkdir(exist_ok=True)
    entry.write_text("backends: [folders]\nhub: {repo: org/tiny}\nengine_params: {tokens: 3}\n")
    body = home.root / "run.yaml"
    body.write_text("target: {model: reader-of-a-hub}\ntask: document-qa\n")
    refused = _run(home, hub, "run", str(body), "--detach", "--json")
    assert _code(refused) == "registry_errors"
    assert "models fetch reader-of-a-hub" in refused.stdout
    target = _target(home, hub, "--model", "reader-of-a-hub")
    assert target["engine_params"] == {"tokens": 3}
    assert f"revision: {hub.repositories['org/tiny'].commit}" in entry.read_text()
    assert _data(_run(home, hub, "run", str(body), "--detach", "--json"))["spec"]["target"] == target


@pytest.mark.parametrize(
    ("name", "repo", "files", "code"),
    [
        ("words-of-a-hub", "org/words", "{weights: words.gguf}", "gguf_no_weights"),
        ("turned-round", "org/tiny-GGUF", f"{{weights: {MMPROJ}, mmproj: {GGUF}}}", "wrong_role"),
        ("page-of-a-hub", "org/page", "{weights: page.gguf}", "no_gguf"),
    ],
)
def test_a_fetched_file_that_is_not_what_its_entry_says_is_refused_and_not_pinned(
    home: Home, hub: LoopbackHub, name: str, repo: str, files: str, code: str
) -> None:
    hub.hold("org/page", {"page.gguf": b"<!doctype html>"})
    entry = home.root / "registries" / "models" / f"{name}.yaml"
    entry.parent.mkdir(parents=True, exist_ok=True)
    written = f"backends: [llamacpp]\nhub: {{repo: {repo}}}\nfiles: {files}\n"
    entry.write_text(written)
    assert _code(_run(home, hub, "models", "fetch", name, "--json")) == code
    assert entry.read_text() == written


def test_models_are_listed_shown_removed_and_fetched_again(home: Home, hub: LoopbackHub) -> None:
    name = _data(_run(home, hub, "models", "fetch", "hf:org/tiny", "--backend", "folders", "--json"))["name"]
    [listed] = [row for row in _data(_run(home, hub, "models", "list", "--json")) if row["name"] == name]
    assert (listed["license"], listed["is_fetched"]) == ("apache-2.0", True)
    assert listed["size_bytes"] == sum(map(len, FOLDER.values()))
    shown = _data(_run(home, hub, "models", "show", name, "--json"))["fetched"]
    assert shown["commit"] == hub.repositories["org/tiny"].commit
    assert shown["sha256"] == {file: _sha256(content) for file, content in FOLDER.items()}
    assert _data(_run(home, hub, "models", "remove", name, "--json"))["size_bytes"] == listed["size_bytes"]
    assert _data(_run(home, hub, "models", "show", name, "--json"))["fetched"] is None
    assert _code(_run(home, hub, "models", "show", "hf:org/tiny", "--json")) == "not_fetched"
    [listed] = [row for row in _data(_run(home, hub, "models", "list", "--json")) if row["name"] == name]
    assert listed["is_fetched"] is False
    _data(_run(home, hub, "models", "fetch", name, "--json"))
    assert _data(_run(home, hub, "models", "show", name, "--json"))["fetched"]["sha256"] == shown["sha256"]


def test_the_token_is_the_secret_of_its_name_and_appears_nowhere(home: Home, hub: LoopbackHub) -> None:
    hub.hold("org/gated", FOLDER, is_gated=True)
    command = ("models", "fetch", "hf:org/gated", "--backend", "folders")
    refused = _run(home, hub, *command, "--json", HF_TOKEN="hf_wrong")
    assert _code(refused) == "hub_denied"
    assert "hf_wrong" not in refused.stdout + refused.stderr
    secret = home.root / "secrets" / "HF_TOKEN"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    fetched = _run(home, hub, *command)
    secret.unlink()
    assert fetched.returncode == 0, fetched.stderr
    assert TOKEN not in fetched.stdout + fetched.stderr


def test_offline_a_fetched_model_is_used_and_another_is_refused(home: Home, hub: LoopbackHub) -> None:
    _data(_run(home, hub, "models", "fetch", "hf:org/tiny", "--backend", "folders", "--json"))
    asked = len(hub.requests)
    fetched = ("models", "fetch", "hf:org/tiny", "--backend", "folders", "--json")
    assert _data(_run(home, hub, *fetched, HF_HUB_OFFLINE="1"))["name"].startswith("tiny-")
    other = _run(home, hub, "models", "fetch", "hf:org/other", "--backend", "folders", "--json", HF_HUB_OFFLINE="1")
    assert _code(other) == "hub_offline"
    assert len(hub.requests) == asked


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--model", "hf:org"), "usage"),
        (("--model", "hf:org/tiny@"), "usage"),
        (("--model", "hf:"), "usage"),
        (("--model", "hf:org/tiny/model.safetensors"), "usage"),
        (("--model", "hf:org/tiny"), "usage"),
        (("--model", "hf:org/tiny", "--backend", "nothing"), "not_found"),
        (("--model", "hf:org/no", "--backend", "folders"), "hub_denied"),
        (("--model", "hf:org/tiny@v9", "--backend", "folders"), "hub_no_revision"),
        (("--model", "hf:org/tiny-GGUF", "--backend", "folders"), "weights_missing"),
        (("--model", "hf:org/tiny-GGUF/other.gguf"), "hub_no_file"),
        (("--model", "hf:org/words/words.gguf"), "gguf_no_weights"),
        (("--model", "hf:org/tiny", "--backend", "llamacpp"), "weights_missing"),
        (("--model", "folder:/no/such/folder", "--backend", "folders"), "no_file"),
        (("--model", f"folder:{TINY}"), "usage"),
        (("--model", f"folder:{TINY}", "--backend", "llamacpp"), "usage"),
        (("--model", "s3:"), "usage"),
        (("--model", "s3://NO_BUCKET/reader"), "usage"),
        (("--model", "gguf:/no/such/file.gguf"), "no_file"),
        (("--model", f"gguf:{TINY / 'config.json'}"), "no_gguf"),
        (("--model", "tiny-doc-vlm", "--mmproj", str(TINY / MMPROJ)), "usage"),
    ],
)
def test_what_cannot_be_brought_is_refused_before_anything_is_registered(
    home: Home, hub: LoopbackHub, arguments: tuple[str, ...], code: str
) -> None:
    models = home.root / "registries" / "models"
    before = sorted(models.iterdir()) if models.exists() else []
    assert _code(_run(home, hub, "run", *arguments, *TASK, "--json")) == code
    assert (sorted(models.iterdir()) if models.exists() else []) == before


def test_the_memory_of_a_model_is_estimated_by_its_adapter(home: Home) -> None:
    gguf = ("models", "estimate", f"gguf:{TINY / GGUF}", "--mmproj", str(TINY / MMPROJ), "--tier", "static", "--json")
    on_host = _data(_run(home, None, *gguf))
    on_device = _data(_run(home, None, *gguf, "--engine-param", "n_gpu_layers=-1"))
    files = (TINY / GGUF).stat().st_size + (TINY / MMPROJ).stat().st_size
    assert on_host["device_bytes"] == 0
    driver, drivers_own, vision = 250 * 2**20, (150 - 35) * 2**20, 2**30  # what only an accelerator adds
    moved = on_host["host_bytes"] - (on_device["host_bytes"] - drivers_own)
    assert moved == on_device["device_bytes"] - driver - vision > 0.9 * files
    assert on_host["free_host_bytes"] > 0
    assert on_host["shortage"] is None
    assert on_host["knobs"] == ["n_ctx", "parallel", "cache_type_k", "cache_type_v", "n_gpu_layers"]
    wider = _data(_run(home, None, *gguf, "--engine-param", "n_ctx=8192"))
    assert wider["host_bytes"] > on_host["host_bytes"] + 2**20
    assert _code(_run(home, None, *gguf, "--engine-param", "n_ctx=much")) == "invalid_input"
    shown = _run(home, None, *gguf[:-1], CUDA_VISIBLE_DEVICES="").stdout.splitlines()
    assert shown[1].split("\t") == ["accelerators", "0.0 MiB", "none here"]


def test_every_kind_of_target_is_estimated_by_its_parts(home: Home, hub: LoopbackHub) -> None:
    for model in (("tiny-doc-vlm-0.2-hf",), ("tiny-doc-vlm-0.2-q8",), (f"folder:{TINY}", "--backend", "transformers")):
        estimated = _data(_run(home, hub, "models", "estimate", *model, "--tier", "static", "--json"))
        computing = {"compute buffers"} if model[0].endswith("-q8") else set()
        assert set(estimated["parts"]) == {"weights", "KV cache", "vision tower", "process"} | computing, model
        assert sum(estimated["parts"].values()) == estimated["device_bytes"] + estimated["host_bytes"], model
        assert (estimated["source"], bool(estimated["knobs"])) == ("static", True), model


def test_nothing_is_fetched_for_an_estimate(home: Home, hub: LoopbackHub) -> None:
    hub.hold("org/unseen", {**FOLDER, "LICENSE": b"unseen"})
    listed = _data(_run(home, hub, "models", "estimate", "hf:org/unseen", "--json"))
    assert listed["weights_bytes"] == len(FOLDER["model.safetensors"])
    assert hub.downloads("model.safetensors") == []
    asked = len(hub.requests)
    stated = _data(_run(home, hub, "models", "estimate", "qwen3-vl-4b", "--json"))
    assert stated["weights_bytes"] == 2 * 4_000_000_000
    assert len(hub.requests) == asked
