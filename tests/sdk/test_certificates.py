"""The conformance suite behind `envs check`: a real engine gets a certificate, and a broken one gets none."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.certificates import Certificate
from vlmhyperbench_sdk.testing.conformance import GatewayUnderTest, check_gateway
from vlmhyperbench_sdk.testing.conformance_checks import CHECKS
from vlmhyperbench_sdk.testing.gateways import KEY, GatewayProcess
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

LIMIT = 8
CONTEXT = 1024


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with GatewayProcess("--max-in-flight", str(LIMIT)) as process:
        yield process


def under_test(gateway: GatewayProcess, load: LoadRequest | None) -> GatewayUnderTest:
    url = f"http://127.0.0.1:{gateway.port}"
    return GatewayUnderTest(url=url, key=KEY, load=load, max_in_flight=LIMIT, context_tokens=CONTEXT, timeout_s=60)


def certified(gateway: GatewayProcess, load: LoadRequest) -> Certificate:
    answer = gateway.load(load)
    assert answer.status == 200, answer.body
    try:
        return check_gateway(under_test(gateway, load))
    finally:
        gateway.unload()


def llama(*roles: str) -> LoadRequest:
    files = {"weights": "tiny-doc-vlm-f16.gguf", "mmproj": "tiny-doc-vlm-mmproj-f16.gguf"}
    return LoadRequest(
        model="tiny",
        backend_class="llamacpp",
        files={role: str(path(files[role])) for role in roles},
        engine_params={"n_ctx": CONTEXT, "parallel": 4, "threads": 1},
    )


def simulated(**params: JsonValue) -> LoadRequest:
    return LoadRequest(model="sim", backend_class="simulated", engine_params={"tokens": 16, **params})


def verdicts(certificate: Certificate) -> dict[str, str]:
    return {check.name: check.verdict for check in certificate.checks}


def test_llama_cpp_gets_a_certificate_with_the_versions_that_it_holds_for(gateway: GatewayProcess) -> None:
    certificate = certified(gateway, llama("weights", "mmproj"))
    assert verdicts(certificate) == dict.fromkeys(CHECKS, "passed"), certificate.to_json()
    assert certificate.is_conforming
    written = json.loads(certificate.to_json())
    assert written["schema"] == "vlmhb/certificate/v1"
    assert (written["engine"], written["backend_class"]) == ("llama.cpp", "llamacpp")
    assert written["engine_packages"]["xllamacpp"] == written["engine_version"]
    assert set(written["weights_sha256"]) == {"weights", "mmproj"}
    assert set(written["versions"]) == {"python", "system", "vlmhyperbench-sdk", "openai"}


def test_the_simulated_engine_conforms_and_refuses_formats_by_name(gateway: GatewayProcess) -> None:
    certificate = certified(gateway, simulated(context_tokens=CONTEXT))
    expected = {**dict.fromkeys(CHECKS, "passed"), "json_schema": "refused", "regex": "refused"}
    assert verdicts(certificate) == expected, certificate.to_json()


def test_a_text_model_refuses_images_by_name(gateway: GatewayProcess) -> None:
    certificate = certified(gateway, llama("weights"))
    assert (certificate.check("image").verdict, certificate.check("text").verdict) == ("refused", "passed")
    assert "image" in certificate.check("image").reason
    assert certificate.is_conforming


@pytest.mark.parametrize(
    ("load", "failing"),
    [
        (simulated(seed=None), {"seed", "stream_equals_whole"}),
        (simulated(fail_every=2), {"stream_equals_whole", "streams_over_the_limit"}),
        (simulated(), {"over_long_input"}),
    ],
    ids=["answers that change", "every second request fails", "no context limit"],
)
def test_an_engine_that_breaks_the_contract_gets_no_certificate(
    gateway: GatewayProcess, load: LoadRequest, failing: set[str]
) -> None:
    certificate = certified(gateway, load)
    assert failing <= {name for name, verdict in verdicts(certificate).items() if verdict == "failed"}
    assert all(check.reason for check in certificate.checks if check.verdict != "passed")
    assert not certificate.is_conforming


def test_a_gateway_without_a_model_is_not_checked(gateway: GatewayProcess) -> None:
    with pytest.raises(Unavailable):
        check_gateway(under_test(gateway, None))


def test_unload_and_reload_are_not_checked_without_the_load_request(gateway: GatewayProcess) -> None:
    assert gateway.load(simulated()).status == 200
    certificate = check_gateway(under_test(gateway, None))
    assert {name for name, verdict in verdicts(certificate).items() if verdict == "not_run"} >= {
        "unload_frees_memory",
        "reload",
    }
    assert gateway.status()["state"] == "ready"
    gateway.unload()
