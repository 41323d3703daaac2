"""The gateway's control bodies: what the inference worker and the gateway say to each other."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Literal

from vlmhyperbench_sdk.endpoint import read_options
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.types import JsonObject

ModelState = Literal["unloaded", "loading", "ready", "unloading", "error"]

SECRET_MASK = "********"  # noqa: S105
"""What stands in place of a secret's value wherever it would be shown."""

KEY_PARAM = "api_key_secret"
"""The one of `LoadRequest.engine_params` that names the key of an endpoint."""


FIRST_PARTY_ADAPTERS = ("vlmhyperbench-llamacpp", "vlmhyperbench-openai", "vlmhyperbench-simulated")
"""Distributions whose adapters may always be imported; a setting of the operator allows others."""

ENVIRONMENT_VARIABLE = "VLMHB_ENGINE_ENVIRONMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEnvironment:
    """Where engines run and whose adapters drive them: made once, and given whole to every process that needs it.

    Whoever starts a gateway or the child that writes bodies hands it over as JSON in `VLMHB_ENGINE_ENVIRONMENT`. A
    process that is started without that variable uses the defaults.
    """

    python: str = sys.executable
    """Interpreter for engines that are Python programs."""
    adapters: tuple[str, ...] = FIRST_PARTY_ADAPTERS
    """Every distribution whose adapters may be imported."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that gateway, engine and body writer get; none of them is secret."""

    def to_variables(self) -> dict[str, str]:
        """Return the environment variables that a child is started with."""
        values = {"python": self.python, "adapters": self.adapters, "variables": dict(self.variables)}
        return {**self.variables, ENVIRONMENT_VARIABLE: json.dumps(values)}

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> EngineEnvironment:
        """Take the value out of this process's environment, so that no other child inherits it.

        Raises:
            InvalidInput: it is malformed.
        """
        text = environ.pop(ENVIRONMENT_VARIABLE, None)
        if text is None:
            return cls()
        try:
            values = json.loads(text)
            return cls(**{**values, "adapters": tuple(values["adapters"])})
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(
                f"{ENVIRONMENT_VARIABLE} is malformed: {error!r}.",
                cure="Unset it, or write an object with python, adapters and variables.",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Body of `POST /v1/model/load`. `env` holds secret values: it lives in memory and leaves with unload."""

    model: str
    """The served name, as in the registry."""
    backend_class: str
    """Entry-point name of the adapter (group `vlmhyperbench.backends`)."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Role → absolute path (`weights`, `mmproj`); verified by whoever asks."""
    engine_params: JsonObject = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    load_timeout_s: float = 300.0
    replace: bool = False
    """Unload whatever is loaded first; without it a second load is refused with 409."""


def key_name(load: LoadRequest) -> str | None:
    """Return which entry of `env` an endpoint is shown as its key; None where it is asked without one.

    It is the one that `api_key_secret` names, else the only one that is no header's. Whoever sends requests asks here,
    so that no other secret ever leaves.

    Raises:
        InvalidInput: there are several, and which one it is is not said.
        NotFound: the one that is named was not given.
    """
    name = load.engine_params.get(KEY_PARAM)
    if name is None:
        others = sorted(set(load.env) - set(header_secrets(load.engine_params).values()))
        if len(others) > 1:
            raise InvalidInput(
                f"Which of the secrets {', '.join(others)} is the key is not said.",
                cure=f"Set {KEY_PARAM} in the engine_params.",
            )
        return others[0] if others else None
    if not isinstance(name, str) or name not in load.env:
        raise NotFound(
            f"The secret {name!r} was not given.", cure=f"Set {KEY_PARAM} in the engine_params to the name of one."
        )
    return name


def header_secrets(params: JsonObject) -> dict[str, str]:
    """Return header → name of its secret, of an endpoint's `headers`."""
    headers = params.get("headers")
    found = headers.items() if isinstance(headers, Mapping) else ()
    return {name: str(value["secret"]) for name, value in found if isinstance(value, Mapping) and "secret" in value}


def request_headers(load: LoadRequest) -> dict[str, str]:
    """Return header → value of what goes with every request to an endpoint: its key, and its own headers.

    Raises:
        InvalidInput: see `key_name` and `read_options`; or the key has two places.
        NotFound: a secret was not given.
    """
    options, key = read_options(load.engine_params), key_name(load)
    if missing := sorted(set(options.secret_headers.values()) - set(load.env)):
        raise NotFound(f"The secret {missing[0]!r} was not given.", cure="Store it on the worker's machine.")
    found = {**options.headers, **{name: load.env[secret] for name, secret in options.secret_headers.items()}}
    if key is not None:
        if "authorization" in map(str.lower, found):
            raise InvalidInput(
                f"Both the header Authorization and the secret {key} are the key.", cure="Leave out one of them."
            )
        found["Authorization"] = f"Bearer {load.env[key]}"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """What cannot be recovered later: recorded once per claim."""

    name: str
    version: str
    argv: tuple[str, ...]
    """Secrets masked; empty for a remote engine."""
    pid: int | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution → version in the engine's environment."""
    weights_sha256: Mapping[str, str] = field(default_factory=dict)
    """Role → hash of the file that was loaded."""
    properties: JsonObject = field(default_factory=dict)
    """What the engine says of itself (`/props`, `/v1/models`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """Answer of `GET /v1/model/status`, `load` and `unload`."""

    state: ModelState
    model: str | None = None
    backend_class: str | None = None
    engine_url: str | None = None
    """Where the load generator measures when `measured_at` is `engine`."""
    measured_at: Literal["engine", "gateway"] = "engine"
    engine: EngineIdentity | None = None
    error: str | None = None
    load_duration_ms: int | None = None
