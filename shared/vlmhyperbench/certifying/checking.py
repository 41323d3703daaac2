"""Certify a backend on this machine: start a gateway with a model, run the conformance suite, measure the baseline."""

from __future__ import annotations

import asyncio
import platform
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Final

from vlmhyperbench.certifying.baseline import Measuring, concurrency_of, measure_baseline
from vlmhyperbench.certifying.certificates import BackendCertificate, subject_of
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.extras import needed_for
from vlmhyperbench.load.measure import Target
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions, is_rented
from vlmhyperbench_sdk.gateway import LoadRequest, ModelStatus
from vlmhyperbench_sdk.load import Endpoint
from vlmhyperbench_sdk.testing.certificates import Certificate
from vlmhyperbench_sdk.testing.conformance import GatewayUnderTest, check_gateway
from vlmhyperbench_sdk.types import JsonValue

MIN_IN_FLIGHT: Final = 8
CONTEXT_PARAMS: Final = ("n_ctx", "max_context", "max_model_len", "context_length", "context_tokens")
"""Parameters of engines that state the context, beyond which an input is too long."""
_CHAT: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is to be certified: a target with the environment in which its engine runs."""

    target: ModelTarget
    request: LoadRequest
    options: GatewayOptions
    environment: Mapping[str, JsonValue]
    """The record of the environment (`environments.used`)."""
    machine: Mapping[str, JsonValue]


async def certify(
    candidate: Candidate, *, report: Callable[[str], None], with_baseline: bool = True
) -> BackendCertificate:
    """Check and measure a backend, and return its certificate, which may say that it does not conform.

    Raises:
        Unavailable: OpenAI's client is missing, or gateway or engine did not come up, or nothing could be measured.
        InvalidInput: a parameter is wrong, or the adapter is not allowed.
        NotFound: a file of the model is missing.
    """
    with needed_for("`vlmhyperbench envs check`", extra="conformance"):
        import openai  # noqa: F401 - the suite's client, which few installations need
    concurrency = concurrency_of(candidate.target.engine_params)
    max_in_flight = max(MIN_IN_FLIGHT, 2 * concurrency)
    options = replace(candidate.options, max_in_flight=max_in_flight)
    gateway = await GatewayClient.start(options, key=secrets.token_urlsafe(32))
    try:
        report(f"loading {candidate.request.model}")
        status = await gateway.load(candidate.request)
        under_test = GatewayUnderTest(
            url=gateway.base_url,
            key=gateway.key,
            load=candidate.request,
            max_in_flight=max_in_flight,
            context_tokens=_context(candidate.target),
        )
        report("conformance")
        conformance = await asyncio.to_thread(check_gateway, under_test)
        levels = []
        if with_baseline and conformance.is_conforming:
            status = await gateway.status()  # the suite has loaded the model again, at another address
            target, measured_at = _measured(status, gateway)
            measuring = Measuring(target=target, model=candidate.request.model, measured_at=measured_at, report=report)
            levels = await measure_baseline(measuring, concurrency=concurrency)
    finally:
        await gateway.close()
    return BackendCertificate(
        subject=subject_of(candidate.target, candidate.environment, candidate.machine),
        environment=dict(candidate.environment),
        machine=dict(candidate.machine),
        host=platform.node(),
        conformance=_versioned(conformance),
        baseline=levels,
    )


def _measured(status: ModelStatus, gateway: GatewayClient) -> tuple[Target, str]:
    """Return where requests are timed: at the engine's own URL, unless the adapter is measured at the gateway.

    The URL of an engine on a rented machine leads through a tunnel, so that times include the network.
    """
    if status.measured_at == "engine" and status.engine_url is not None:
        target = Target(endpoint=Endpoint(url=status.engine_url.rstrip("/") + _CHAT, headers={}))
        return target, "tunnel" if is_rented(status.engine) else "engine"
    endpoint = Endpoint(url=gateway.base_url + _CHAT, headers={"Authorization": "key"})
    return Target(endpoint=endpoint, secrets={"key": f"Bearer {gateway.key}"}), "gateway"


def _context(target: ModelTarget) -> int | None:
    """Return the context that the target's parameters state; None where they do not."""
    stated = (target.engine_params.get(name) for name in CONTEXT_PARAMS)
    return next((value for value in stated if isinstance(value, int) and value > 0), None)


def _versioned(conformance: Certificate) -> Certificate:
    return replace(conformance, versions={**conformance.versions, "vlmhyperbench": version("vlmhyperbench")})
