"""The adapter of the simulated engine: the timed server as a backend, started only if a target names it."""

from __future__ import annotations

import json
from typing import Literal

from vlmhyperbench_sdk.chat import Format, translate
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_simulated.streams import parse_simulation

FORMATS: tuple[Format, ...] = ("text",)
"""A simulated engine cannot constrain its answers."""

_RSS_BYTES = 30 * 1024 * 1024


class Simulated:
    """A server with declared timing in place of an engine; `engine_params` are those of `Simulation` and `stream`.

    Unless `seed` is null, the same request gets the same answer, as of a model at temperature 0.
    """

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start the timed server.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
        """
        params = {"model": load.model, "seed": 0, **load.engine_params}
        parse_simulation(params)
        argv = (python, "-m", "vlmhyperbench_simulated", "--host", host, "--port", str(port))
        return EngineLaunch(
            argv=(*argv, "--params", json.dumps(params)),
            url=f"http://{host}:{port}",
            engine="simulated",
            distribution="vlmhyperbench-simulated",
        )

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Pass the request on.

        Raises:
            InvalidInput: the request is malformed, or asks for a format or several choices.
        """
        return translate(request, formats=FORMATS, optional=("ignore_eos", "min_tokens"))

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Return the server's own memory, and what the engine declares to need of devices.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
        """
        declared = parse_simulation(load.engine_params).device_memory_gib
        if not declared:
            return MemoryEstimate(device_bytes=0, host_bytes=_RSS_BYTES, source="measured")
        return MemoryEstimate(
            device_bytes=round(declared * 1024**3),
            host_bytes=_RSS_BYTES,
            source="declared",
            knobs=("device_memory_gib",),
        )
