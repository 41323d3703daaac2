"""Targets that are loaded by a real gateway, for tests of serving and of the fleet."""

import pytest

from tests.inference_worker.targets import MARK
from tests.support.processes import PATIENCE_S
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.serving import WantedTarget
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy


@pytest.fixture
def wanted(tmp_path):
    cache = ModelCache(tmp_path / "models", max_bytes=2**30)

    def want(target, digest="d1", **secrets):
        return WantedTarget(digest=digest, target=target, secrets=secrets, load_timeout_s=PATIENCE_S, cache=cache)

    return want


@pytest.fixture
def options(tmp_path):
    return GatewayOptions(
        environment=EngineEnvironment(variables={MARK: "worker-1"}),
        log=tmp_path / "gateway.log",
        policy=UrlPolicy(allow_loopback=True),
    )
