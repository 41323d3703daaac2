"""GGUF models over REST: their status, what they need, and what users ask workers to load."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import pytest

from tests.api.conftest import Served
from vlmhyperbench.db import held_models, memory
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.settings import Settings
from vlmhyperbench_tiny_doc_vlm import path

pytestmark = pytest.mark.anyio

MODEL = "tiny-doc-vlm-0.2-q4"


@pytest.fixture(autouse=True)
async def project(api: Served) -> str:
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Add a model whose file is gone, and one that is no GGUF."""
    folder = tmp_path / "registries" / "models"
    folder.mkdir(parents=True)
    (folder.parent / "broken.gguf").write_bytes(b"no GGUF")
    shutil.copy(path("tiny-doc-vlm-q8_0.gguf", "0.2"), folder.parent / "beside.gguf")
    for name in ("gone", "broken"):
        entry = {"backends": ["llamacpp"], "path": ".", "files": {"weights": f"{name}.gguf"}}
        (folder / f"{name}.yaml").write_text(
            json.dumps({"description": "For tests.", **entry, "sha256": {"weights": "0" * 64}})
        )
    own = {"backends": ["llamacpp"], "path": ".", "files": {"weights": "pinned.gguf"}, "pin": True}
    shutil.copy(path("tiny-doc-vlm-q8_0.gguf", "0.2"), folder.parent / "pinned.gguf")
    hashed = {"sha256": {"weights": file_sha256(folder.parent / "pinned.gguf")}}
    (folder / "pinned.yaml").write_text(json.dumps({"description": "For tests.", **own, **hashed}))
    return settings


async def test_the_list_has_every_gguf_model_with_its_status_and_reason(api: Served) -> None:
    answer = await api.http.get("/models")
    assert answer.status_code == 200, answer.text
    models = {model["name"]: model for model in answer.json()["items"]}
    usable = models[MODEL]
    assert (usable["status"], usable["quantization"]) == ("available", "Q4_0")
    assert usable["need_bytes"] > usable["size_bytes"] > 0
    assert usable["estimate_source"] == "static"
    assert models["gone"]["status"] == "missing"
    assert "gone.gguf" in models["gone"]["reason"]
    assert models["broken"]["status"] == "invalid"
    assert "simulated" not in models
    beside = next(model for model in models.values() if not model["is_registered"])
    assert (beside["file"], beside["status"], beside["quantization"]) == ("beside.gguf", "available", "Q8_0")
    assert beside["reason"].endswith(f"registry add model {beside['name']}`.")
    assert (await api.http.get(f"/models/{MODEL}")).json() == usable


async def test_an_estimate_has_its_source_its_margin_and_what_was_measured(api: Served, project: str) -> None:
    before = (await api.http.get(f"/models/{MODEL}/estimate")).json()
    assert (before["source"], before["measured"]) == ("static", [])
    assert before["margin_host_bytes"] == round(before["host_bytes"] * 1.1) + 256 * 2**20
    assert sum(before["parts"].values()) == before["host_bytes"] + before["device_bytes"]
    await api.http.post(f"/models/{MODEL}/load")
    device = f"test device {secrets.token_hex(4)}"
    async with api.database.transaction() as session:
        (held,) = await held_models.of_project(session, project)
        await memory.write_peak(session, held.target_digest, device, 123_456_789)
    after = (await api.http.get(f"/models/{MODEL}/estimate")).json()
    assert {"device": device, "bytes": 123_456_789} in after["measured"]
    assert (await api.http.get(f"/models/{MODEL}")).json()["measured_bytes"] >= 123_456_789


async def test_a_model_waits_for_a_worker_is_pinned_and_is_unloaded(api: Served) -> None:
    loading = await api.http.post(f"/models/{MODEL}/load", json={"pin": True})
    assert loading.status_code == 202, loading.text
    assert {name: loading.json()[name] for name in ("status", "is_pinned", "worker")} == {
        "status": "waiting",
        "is_pinned": True,
        "worker": None,
    }
    again = await api.http.post(f"/models/{MODEL}/load", json={"pin": False})
    assert (again.json()["status"], again.json()["is_pinned"]) == ("waiting", False)
    assert (await api.http.post("/models/pinned/load")).json()["is_pinned"] is True
    unloaded = await api.http.post(f"/models/{MODEL}/unload")
    assert (unloaded.status_code, unloaded.json()["status"]) == (202, "available")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/models/nothing", 404, "not_found"),
        ("GET", "/models/simulated", 404, "no_gguf_model"),
        ("GET", "/models/gone/estimate", 404, "no_estimate"),
        ("POST", "/models/gone/load", 409, "model_missing"),
        ("POST", "/models/broken/load", 409, "model_invalid"),
        ("POST", f"/models/{MODEL}/unload", 409, "not_loaded"),
        ("POST", "/models/nothing/unload", 404, "not_found"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_code(
    api: Served, method: str, path: str, status: int, code: str
) -> None:
    answer = await api.http.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_reading_and_loading_need_scopes_of_their_own(api: Served, project: str) -> None:
    reader = {"X-API-Key": await api.add_key("worker:read", project=project)}
    other = {"X-API-Key": await api.add_key("run:read", project=project)}
    assert (await api.http.get("/models", headers=reader)).status_code == 200
    assert (await api.http.get("/models", headers=other)).status_code == 403
    for command in ("load", "unload"):
        assert (await api.http.post(f"/models/{MODEL}/{command}", headers=reader)).status_code == 403
    assert (await api.http.post(f"/models/{MODEL}/load", json={"pin": 1}, headers=api.http.headers)).status_code == 422


async def test_another_project_does_not_see_what_one_has_asked_for(api: Served) -> None:
    await api.http.post(f"/models/{MODEL}/load")
    stranger = {"X-API-Key": await api.add_key(project=f"p{secrets.token_hex(6)}")}
    assert (await api.http.get(f"/models/{MODEL}", headers=stranger)).json()["status"] == "available"
    assert (await api.http.get(f"/models/{MODEL}")).json()["status"] == "waiting"
