"""Any OpenAI-compatible URL as a backend: somebody else runs the engine, its own URL is measured."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench_sdk.chat import translate
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.net import parse_url
from vlmhyperbench_sdk.protocols import EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PARAMS = ("url", "api_key_secret")
"""`url` ends with or without `/v1`; `api_key_secret` names the entry of `LoadRequest.env` that holds the key."""


class OpenAICompatible:
    """A remote engine behind `engine_params.url`. Which addresses are allowed is the gateway's policy."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(self, load: LoadRequest, *, port: int, python: str) -> EngineLaunch | RemoteEngine:  # noqa: ARG002
        """Name the URL and the key; nothing is started.

        Raises:
            InvalidInput: a parameter is unknown, or the URL is not one.
            NotFound: the named secret was not given.
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
        key = self._key(load)
        headers = {"authorization": f"Bearer {key}"} if key is not None else {}
        return RemoteEngine(url=url.removesuffix("/v1"), headers=headers, engine="openai")

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Pass the request on; a format is the remote engine's to accept or refuse, save what OpenAI has no word for.

        Raises:
            InvalidInput: the request is malformed, or asks for an answer by regular expression.
        """
        return translate(request, formats=("text", "json_object", "json_schema"))

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:  # noqa: ARG002
        """Say that it needs no memory of ours."""
        return MemoryEstimate(device_bytes=0, host_bytes=0, source="static")

    def _key(self, load: LoadRequest) -> str | None:
        name = load.engine_params.get("api_key_secret")
        if name is None:
            if len(load.env) > 1:
                raise InvalidInput("Which of the secrets is the key is not said.", cure="Set api_key_secret.")
            return next(iter(load.env.values()), None)
        if not isinstance(name, str) or name not in load.env:
            raise NotFound(f"The secret {name!r} was not given.", cure="Name it among the run's secrets.")
        return load.env[name]
