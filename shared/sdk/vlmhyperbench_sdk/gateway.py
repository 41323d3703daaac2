"""Request and response bodies of the gateway's control API, which the inference worker calls."""

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

SECRET_MASK = "********"  # noqa: S105 -- stands in place of a secret
"""Text shown in place of a secret's value."""

KEY_PARAM = "api_key_secret"
"""Name of the entry of `LoadRequest.engine_params` that names the secret used as an endpoint's API key."""


FIRST_PARTY_ADAPTERS = (
    "vlmhyperbench-deepseek-ocr",
    "vlmhyperbench-llamacpp",
    "vlmhyperbench-openai",
    "vlmhyperbench-pipeline",
    "vlmhyperbench-sglang",
    "vlmhyperbench-simulated",
    "vlmhyperbench-transformers",
    "vlmhyperbench-vllm",
)
"""Distributions whose adapters may always be imported; the operator allows others by a setting."""

OUTPUT_FOLLOWS = "The end of its output:"
"""Ends the first line of an engine's error; the lines after it are the end of its output."""


def without_output(message: str) -> str:
    """Return an engine's error without the end of its output."""
    return message.partition("\n")[0].removesuffix(OUTPUT_FOLLOWS).rstrip()


ENVIRONMENT_VARIABLE = "VLMHB_ENGINE_ENVIRONMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEnvironment:
    """Where engines run and which adapters may drive them: created once and passed to every process that needs it.

    It is passed to a gateway, and to the child that writes bodies, as JSON in `VLMHB_ENGINE_ENVIRONMENT`. A process
    started without that variable uses the defaults.
    """

    python: str = sys.executable
    """Python interpreter of engines that are Python programs."""
    gateway: str = sys.executable
    """Python interpreter of the gateway and of the body writer, which import the adapter."""
    adapters: tuple[str, ...] = FIRST_PARTY_ADAPTERS
    """All distributions whose adapters may be imported."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for gateway, engine and body writer; none is secret."""
    inherited: tuple[str, ...] | None = None
    """Patterns (`CUDA_*`) of the only variables that the engine inherits; None: all that are no credentials."""
    launcher: tuple[str, ...] = ()
    """Command that starts the engine elsewhere, as in a container; empty: the gateway starts it directly.

    It gets the paths of the files that the engine reads as further arguments. Its first line on stdout is a JSON object
    with `host`, on which the engine must listen, and may have `pid`, `packages` and `environment`, what is recorded of
    it; an object with `error` instead says why there is none. Then it reads one line from stdin, a JSON object with
    `argv`, `env` and `url` of the engine, passes the engine's output on to stdout, ends as the engine ends, and ends
    the engine on SIGTERM and when its stdin closes.
    """
    is_rented: bool = False
    """Whether the launcher's engine runs on another machine, of whose memory this one knows nothing."""

    @property
    def is_gateway_apart(self) -> bool:
        """Whether the gateway runs in another environment than this process, where an adapter of others is."""
        return self.gateway != sys.executable

    def module(self, name: str) -> list[str]:
        """Return the command that runs a module where the adapter is; apart, no variable and no folder adds modules."""
        return [self.gateway, *(["-I"] if self.is_gateway_apart else []), "-m", name]

    def to_variables(self) -> dict[str, str]:
        """Return the environment variables for a child process."""
        values = {
            "python": self.python,
            "gateway": self.gateway,
            "adapters": self.adapters,
            "variables": dict(self.variables),
            "inherited": self.inherited,
            "launcher": self.launcher,
            "is_rented": self.is_rented,
        }
        return {**self.variables, ENVIRONMENT_VARIABLE: json.dumps(values)}

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> EngineEnvironment:
        """Read the value and remove it from this process's environment, so that no child inherits it by accident.

        Raises:
            InvalidInput: it is malformed.
        """
        text = environ.pop(ENVIRONMENT_VARIABLE, None)
        if text is None:
            return cls()
        try:
            values = json.loads(text)
            adapters, inherited = tuple(values["adapters"]), values.get("inherited")
            inherited = tuple(inherited) if inherited is not None else None
            launcher = tuple(values.get("launcher", ()))
            return cls(**{**values, "adapters": adapters, "inherited": inherited, "launcher": launcher})
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput(
                f"{ENVIRONMENT_VARIABLE} is malformed: {error!r}.",
                cure="Unset it, or write an object with python, adapters and variables.",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Body of `POST /v1/model/load`. `env` holds secret values: it is kept in memory only and dropped at unload."""

    model: str
    """The served name, as in the registry."""
    backend_class: str
    """Entry-point name of the adapter (group `vlmhyperbench.backends`)."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Role (`weights`, `mmproj`) → absolute path; the caller has verified the files."""
    engine_params: JsonObject = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    load_timeout_s: float = 300.0
    replace: bool = False
    """Whether to unload a loaded model first; otherwise a second load is refused with 409."""


def key_name(load: LoadRequest) -> str | None:
    """Return the name of the entry of `env` that is an endpoint's API key; None if requests carry no key.

    It is the entry named by `api_key_secret`, else the only entry that no header uses. Every sender of requests uses
    this function, so that no other secret is ever sent.

    Raises:
        InvalidInput: several entries are possible and none is named.
        NotFound: the named entry is missing.
    """
    name = load.engine_params.get(KEY_PARAM)
    if name is None:
        others = sorted(set(load.env) - set(header_secrets(load.engine_params).values()))
        if len(others) > 1:
            raise InvalidInput(
                f"It is not stated which of the secrets {', '.join(others)} is the key.",
                cure=f"Set {KEY_PARAM} in the engine_params.",
            )
        return others[0] if others else None
    if not isinstance(name, str) or name not in load.env:
        raise NotFound(
            f"The secret {name!r} was not given.", cure=f"Set {KEY_PARAM} in the engine_params to the name of one."
        )
    return name


def header_secrets(params: JsonObject) -> dict[str, str]:
    """Return header → name of its secret, for the secret ones among an endpoint's `headers`."""
    headers = params.get("headers")
    items = headers.items() if isinstance(headers, Mapping) else ()
    return {name: str(value["secret"]) for name, value in items if isinstance(value, Mapping) and "secret" in value}


def named_secrets(params: JsonObject) -> list[str]:
    """Return the names of the secrets that the params of a target name: that of its key, then those of its headers."""
    key = params.get(KEY_PARAM)
    return [*([key] if isinstance(key, str) else []), *header_secrets(params).values()]


def request_headers(load: LoadRequest) -> dict[str, str]:
    """Return the headers (name → value) of every request to an endpoint: its API key and its own headers.

    Raises:
        InvalidInput: see `key_name` and `read_options`; or both a header and a secret set the key.
        NotFound: a secret is missing.
    """
    options, key = read_options(load.engine_params), key_name(load)
    if missing := sorted(set(options.secret_headers.values()) - set(load.env)):
        raise NotFound(f"The secret {missing[0]!r} was not given.", cure="Store it on the worker's machine.")
    all_headers = {**options.headers, **{name: load.env[secret] for name, secret in options.secret_headers.items()}}
    if key is not None:
        if "authorization" in map(str.lower, all_headers):
            raise InvalidInput(
                f"Both the header Authorization and the secret {key} are the key.", cure="Leave out one of them."
            )
        all_headers["Authorization"] = f"Bearer {load.env[key]}"
    return all_headers


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """Identity of the running engine, recorded once per claim because it cannot be determined later."""

    name: str
    version: str
    argv: tuple[str, ...]
    """Command line with secrets masked; empty for a remote engine."""
    pid: int | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution → version in the engine's environment."""
    weights_sha256: Mapping[str, str] = field(default_factory=dict)
    """Role → hash of the loaded file."""
    properties: JsonObject = field(default_factory=dict)
    """What the engine reports about itself (`/props`, `/v1/models`)."""
    environment: JsonObject = field(default_factory=dict)
    """What its launcher states about where it runs, such as `kind` and `image`; empty if it was started directly."""
    warnings: tuple[str, ...] = ()
    """What a reader of its answers should know, such as a version with which the adapter was not tried."""
    adapter_packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution → version where the adapter runs, if it comes from a package and the engine runs elsewhere."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Distribution → where it comes from, by commit or content, for packages of others in both environments."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Settings that the engine takes from the environment of its worker, such as `OMP_NUM_THREADS`; masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """Response body of `GET /v1/model/status`, `load` and `unload`."""

    state: ModelState
    model: str | None = None
    backend_class: str | None = None
    engine_url: str | None = None
    """URL that the load generator measures if `measured_at` is `engine`."""
    measured_at: Literal["engine", "gateway"] = "engine"
    engine: EngineIdentity | None = None
    error: str | None = None
    error_code: str | None = None
    """`oom`, `engine_exited`, `load_timeout`, `load_failed` …: why the state is `error`."""
