"""A worker fetches the pinned files of a model from a hub, loads them in llama.cpp, and keeps them while it serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import LoopbackHub, serve_hub
from tests.support.processes import PATIENCE_S
from vlmhyperbench.data.fetching import fetch_missing
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Hub
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy
from vlmhyperbench_tiny_doc_vlm import path, sha256

pytestmark = pytest.mark.anyio

REPO = "org/tiny-GGUF"
FILES = {"weights": "tiny-doc-vlm-q4_0.gguf", "mmproj": "tiny-doc-vlm-mmproj-f16.gguf"}


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with serve_hub() as served:
        served.hold(REPO, {name: path(name).read_bytes() for name in FILES.values()})
        yield served


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "models", max_bytes=2**30)


def _target(hub: LoopbackHub, **hashes: str) -> ModelTarget:
    commit = hub.repositories[REPO].commit
    files = tuple(
        ModelFile(role=role, location=CachedFile(REPO, commit, name).location, sha256=hashes.get(role, sha256(name)))
        for role, name in FILES.items()
    )
    params = {"n_ctx": 1024, "threads": 1}
    return ModelTarget(
        model="tiny", version="1.0.0", backend="llamacpp", backend_class="llamacpp", files=files, engine_params=params
    )


async def _start(target: ModelTarget, cache: ModelCache, tmp_path: Path) -> Serving:
    wanted = WantedTarget(digest="d", target=target, load_timeout_s=PATIENCE_S, cache=cache)
    policy = UrlPolicy(allow_loopback=True)
    options = GatewayOptions(environment=EngineEnvironment(), log=tmp_path / "gateway.log", policy=policy)
    return await Serving.start(wanted, options)


async def test_a_fetched_model_is_loaded_and_cannot_be_removed_while_it_serves(
    hub: LoopbackHub, cache: ModelCache, tmp_path: Path
) -> None:
    target = _target(hub)
    with pytest.raises(NotFound) as missing:
        await _start(target, cache, tmp_path)
    assert missing.value.code == "not_fetched"
    fetch_missing(target.files, cache, lambda _: Hub(endpoint=hub.url))
    serving = await _start(target, cache, tmp_path)
    try:
        assert serving.engine is not None
        assert serving.engine.weights_sha256 == {role: sha256(name) for role, name in FILES.items()}
        [fetched] = cache.models()
        with pytest.raises(Conflict) as refused:
            cache.remove(fetched)
        assert refused.value.code == "model_in_use"
    finally:
        await serving.close()
    cache.remove(fetched)
    assert cache.models() == []


async def test_a_fetched_file_that_is_not_the_pinned_one_is_refused_before_anything_starts(
    hub: LoopbackHub, cache: ModelCache, tmp_path: Path
) -> None:
    target, right = _target(hub, weights="0" * 64), _target(hub)
    with pytest.raises(Conflict) as refused:
        fetch_missing(target.files, cache, lambda _: Hub(endpoint=hub.url))
    assert refused.value.code == "wrong_hash"
    fetch_missing(right.files, cache, lambda _: Hub(endpoint=hub.url))
    with pytest.raises(Conflict) as refused:
        await _start(target, cache, tmp_path)
    assert refused.value.code == "wrong_hash"
    cache.remove(cache.models()[0])  # nothing holds the files any more
