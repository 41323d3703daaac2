"""Conformance suite of a running gateway with a loaded model, asked by OpenAI's official Python client.

`check_gateway(GatewayUnderTest(url=…, key=…))` returns a `Certificate`. The client is the extra `conformance` of this
package. A model need not answer well: the suite checks the contract, not the quality.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version

from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.testing.certificates import Certificate, CheckResult, Verdict
from vlmhyperbench_sdk.testing.conformance_checks import CHECKS
from vlmhyperbench_sdk.testing.conformance_session import (
    CheckFailed,
    CheckNotRun,
    GatewayUnderTest,
    RefusedByName,
    Session,
)
from vlmhyperbench_sdk.types import JsonValue

__all__ = ["GatewayUnderTest", "check_gateway"]


def check_gateway(target: GatewayUnderTest) -> Certificate:
    """Run every check, one after the other, and return the certificate.

    The model is loaded when the suite ends if `target.load` is given or the checks left it loaded.

    Raises:
        NotFound: OpenAI's client is not installed.
        Unavailable: the gateway does not answer, or no model is loaded.
    """
    session = Session(target)
    if session.status.get("state") != "ready":
        raise Unavailable(
            f"No model is ready at {target.url}: the state is {session.status.get('state')}.", cure="Load one first."
        )
    engine, model, backend = session.engine, session.model, str(session.status["backend_class"])
    results = [_run(session, name, check) for name, check in CHECKS.items()]
    return Certificate(
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        model=model,
        backend_class=backend,
        engine=str(engine.get("name", "")),
        engine_version=str(engine.get("version", "unknown")),
        engine_packages=_texts(engine.get("packages")),
        weights_sha256=_texts(engine.get("weights_sha256")),
        versions={
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "vlmhyperbench-sdk": version("vlmhyperbench-sdk"),
            "openai": version("openai"),
        },
        checks=results,
    )


def _run(session: Session, name: str, check: Callable[[Session], None]) -> CheckResult:
    start = time.monotonic()
    verdict: Verdict = "passed"
    reason = ""
    try:
        check(session)
    except CheckNotRun as error:
        verdict, reason = "not_run", str(error)
    except RefusedByName as error:
        verdict, reason = "refused", str(error)
    except CheckFailed as error:
        verdict, reason = "failed", str(error)
    except (session.openai.OpenAIError, Unavailable, ValueError) as error:
        verdict, reason = "failed", f"{type(error).__name__}: {error}"[:1000]
    seconds = round(time.monotonic() - start, 3)
    return CheckResult(name=name, verdict=verdict, reason=reason, seconds=seconds)


def _texts(value: JsonValue) -> dict[str, str]:
    return {name: str(item) for name, item in value.items()} if isinstance(value, Mapping) else {}
