"""A pipeline as a backend: a process of the platform that asks the pipeline's models through gateways of their own."""

from __future__ import annotations

from typing import Final, Literal

from vlmhyperbench_sdk.chat import translate
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PLAN: Final = "pipeline"
"""Role of the file that says what the pipeline is and where its models are; `pipeline serve` writes it."""
SUPPORTED: Final = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "response_format", "stop"),
        *("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "max_completion_tokens"),
    }
)
"""Fields of a request that a pipeline can hand to its models."""

_RSS_BYTES: Final = 100 * 1024 * 1024


class ServedPipeline:
    """The process that serves a pipeline; its models are loaded by whoever has started their gateways."""

    measured_at: Literal["engine", "gateway"] = "gateway"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start the process.

        Raises:
            InvalidInput: there are parameters, of which it has none.
            NotFound: the file with the plan was not given.
        """
        if load.engine_params:
            message = f"A pipeline has no engine parameter {min(load.engine_params)!r}."
            raise InvalidInput(message, cure="Give its models their own in the entry of the pipeline.")
        if PLAN not in load.files:
            raise NotFound("The plan of the pipeline is missing.", cure="Use `vlmhyperbench pipeline serve NAME`.")
        argv = (python, "-m", "vlmhyperbench.serving", load.files[PLAN], "--host", host, "--port", str(port))
        return EngineLaunch(argv=argv, url=f"http://{host}:{port}", engine="pipeline", distribution="vlmhyperbench")

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Pass the request on.

        Raises:
            InvalidInput: the request is malformed, or asks for what a pipeline cannot hand to its models.
        """
        body = translate(request, formats=("text", "json_object", "json_schema", "regex"))
        if others := sorted(set(body) - SUPPORTED):
            message = f"A pipeline cannot do what {others[0]} asks for."
            raise InvalidInput(message, cure=f"Leave {others[0]} out.", code="unsupported")
        return body

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:  # noqa: ARG002 -- the contract
        """Return the memory of the process itself; that of the models counts where they are loaded."""
        return MemoryEstimate(device_bytes=0, host_bytes=_RSS_BYTES, source="measured")
