"""Any OpenAI-compatible URL as a backend: the engine runs elsewhere, and its URL is measured."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench_sdk.chat import translate
from vlmhyperbench_sdk.endpoint import OPTIONS
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import KEY_PARAM, LoadRequest, request_headers
from vlmhyperbench_sdk.net import parse_url
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PARAMS = ("url", KEY_PARAM, *OPTIONS)
"""`url` with or without `/v1` at its end; `key_name` chooses the entry of `LoadRequest.env` that is the key."""


class OpenAICompatible:
    """A remote engine at `engine_params.url`. The gateway's policy decides which addresses are allowed."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self,
        load: LoadRequest,
        *,
        port: int,  # noqa: ARG002 -- the contract
        python: str,  # noqa: ARG002 -- the contract
        host: str = LOOPBACK,  # noqa: ARG002 -- the contract
    ) -> EngineLaunch | RemoteEngine:
        """Return the URL and the headers; nothing is started.

        Raises:
            InvalidInput: a parameter is unknown or wrong, the URL is malformed, or the secret of the key is ambiguous.
            NotFound: a named secret was not given.
        """
        for name in load.engine_params:
            if name not in PARAMS:
                raise InvalidInput(
                    f"An OpenAI-compatible endpoint has no parameter {name!r}.",
                    cure=f"Choose one of {', '.join(PARAMS)}.",
                )
        given = load.engine_params.get("url")
        if not isinstance(given, str):
            raise InvalidInput("An OpenAI-compatible endpoint needs a url.", cure="Give https://HOST/v1.")
        url = str(parse_url(given))
        return RemoteEngine(url=url.removesuffix("/v1"), headers=request_headers(load), engine="openai")

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Pass the request on with vendors' fields; the remote engine itself refuses what it does not support.

        Raises:
            InvalidInput: the request is malformed, or requests an answer by regular expression.
        """
        return translate(
            request,
            formats=("text", "json_object", "json_schema"),
            optional=("n", "ignore_eos", "min_tokens"),
            vendor="any",
        )

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:  # noqa: ARG002 -- the contract
        """Return 0 bytes: a remote engine needs no memory here."""
        return MemoryEstimate(device_bytes=0, host_bytes=0, source="static")
