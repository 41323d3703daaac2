"""Any OpenAI-compatible URL as a backend: somebody else runs the engine, its own URL is measured."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench_sdk.chat import translate
from vlmhyperbench_sdk.endpoint import OPTIONS
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import KEY_PARAM, LoadRequest, request_headers
from vlmhyperbench_sdk.net import parse_url
from vlmhyperbench_sdk.protocols import EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PARAMS = ("url", KEY_PARAM, *OPTIONS)
"""`url` ends with or without `/v1`; which entry of `LoadRequest.env` is the key, `key_name` says."""


class OpenAICompatible:
    """A remote engine behind `engine_params.url`. Which addresses are allowed is the gateway's policy."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(self, load: LoadRequest, *, port: int, python: str) -> EngineLaunch | RemoteEngine:  # noqa: ARG002
        """Name the URL and the key; nothing is started.

        Raises:
            InvalidInput: a parameter is unknown or wrong, the URL is not one, or which secret is the key is not said.
            NotFound: a named secret was not given.
        """
        for name in load.engine_params:
            if name not in PARAMS:
                raise InvalidInput(
                    f"An OpenAI-compatible endpoint has no parameter {name!r}.", cure=f"Known: {', '.join(PARAMS)}."
                )
        given = load.engine_params.get("url")
        if not isinstance(given, str):
            raise InvalidInput("An OpenAI-compatible endpoint needs a url.", cure="Give https://HOST/v1.")
        url = str(parse_url(given))
        return RemoteEngine(url=url.removesuffix("/v1"), headers=request_headers(load), engine="openai")

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Pass the request on, vendors' fields too; what the remote engine cannot do it refuses itself.

        Raises:
            InvalidInput: the request is malformed, or asks for an answer by regular expression.
        """
        return translate(
            request,
            formats=("text", "json_object", "json_schema"),
            optional=("n", "ignore_eos", "min_tokens"),
            vendor="any",
        )

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:  # noqa: ARG002
        """Say that it needs no memory of ours."""
        return MemoryEstimate(device_bytes=0, host_bytes=0, source="static")
