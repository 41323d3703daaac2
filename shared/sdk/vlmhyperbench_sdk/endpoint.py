"""Options of an OpenAI-compatible endpoint: extra headers, field names, omitted fields and vendor fields.

They are `engine_params` of the target, so they are part of its digest and are shown in reports. They hold secrets by
name only. Fields that the platform sets (`model`, `messages`, `stream`, everything in `decoding`) cannot be overridden:
otherwise a run's requests could contradict its record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue

OPTIONS: Final = ("headers", "max_tokens_field", "omit", "extra_body")
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
"""Names of the field that limits the length of an answer."""
MAX_TOKENS_FIELDS: Final = get_args(MaxTokensField)
OMITTABLE: Final = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "response_format",
    "stream_options",
)
MAX_HEADERS: Final = 20
MAX_HEADER_CHARACTERS: Final = 1000
MAX_BODY_CHARACTERS: Final = 16_000

_DECODED: Final = frozenset({*OMITTABLE, *MAX_TOKENS_FIELDS}) - {"stream_options"}
_OWNED: Final = frozenset({"model", "messages", "stream", "stream_options", "n", "model_params"})
_OWNED_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
_HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
NAMES_OF_SECRETS: Final = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
"""Pattern of valid names of secrets."""
_CONFIDENTIAL: Final = re.compile(r"auth|key|token|secret|cookie|passw|credential|session", re.IGNORECASE)
_CREDENTIAL: Final = re.compile(r"(bearer|basic|token)\s|sk-", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionProblem:
    """An error in the options."""

    path: tuple[str, ...]
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """The options of one endpoint."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """Header → value, of headers that are not secret."""
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    """Header → name of the secret that holds its value."""
    max_tokens_field: str = "max_tokens"
    """Name of the field that limits the length of an answer."""
    omit: tuple[str, ...] = ()
    """Fields that are removed from requests."""
    extra_body: JsonObject = field(default_factory=dict)
    """Fields that are added to requests."""

    def fit(self, request: JsonObject) -> dict[str, JsonValue]:
        """Return a chat request adapted to this endpoint."""
        fitted = {name: value for name, value in request.items() if name not in self.omit}
        if "max_tokens" in fitted and self.max_tokens_field != "max_tokens":
            fitted[self.max_tokens_field] = fitted.pop("max_tokens")
        return {**fitted, **self.extra_body}


def read_options(params: JsonObject) -> EndpointOptions:
    """Parse the options among the engine's parameters.

    Raises:
        InvalidInput: an option is invalid.
    """
    for problem in problems_with(params):
        raise InvalidInput(f"{'.'.join(problem.path)}: {problem.message}", cure=problem.cure)
    headers, omit = _object(params.get("headers")), params.get("omit")
    return EndpointOptions(
        headers={name: value for name, value in headers.items() if isinstance(value, str)},
        secret_headers={name: str(value["secret"]) for name, value in headers.items() if isinstance(value, Mapping)},
        max_tokens_field=str(params.get("max_tokens_field", "max_tokens")),
        omit=tuple(map(str, omit)) if isinstance(omit, (list, tuple)) else (),
        extra_body=_object(params.get("extra_body")),
    )


def problems_with(params: JsonObject) -> Iterator[OptionProblem]:
    """Yield every error in the options among the engine's parameters."""
    yield from _headers(params.get("headers", {}))
    yield from _fields(params)
    yield from _extra_body(params.get("extra_body", {}))


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _headers(headers: JsonValue) -> Iterator[OptionProblem]:
    if not isinstance(headers, Mapping) or len(headers) > MAX_HEADERS:
        yield OptionProblem(
            path=("headers",),
            message=f"it is no mapping of at most {MAX_HEADERS} headers.",
            cure="Write NAME: VALUE, or NAME: {secret: NAME_OF_THE_SECRET}.",
        )
        return
    seen = set[str]()
    for name, value in headers.items():
        path = ("headers", str(name))
        lower = str(name).lower()
        if not _HEADER.fullmatch(str(name)):
            yield OptionProblem(path=path, message="it is no name of a header.", cure="Use letters, digits and '-'.")
        elif lower in _OWNED_HEADERS:
            yield OptionProblem(path=path, message="this header is the platform's own.", cure="Leave it out.")
        elif lower in seen:
            yield OptionProblem(path=path, message="the header comes twice.", cure="Remove one.")
        elif isinstance(value, Mapping):
            secret = value.get("secret")
            if set(value) != {"secret"} or not isinstance(secret, str) or not re.fullmatch(NAMES_OF_SECRETS, secret):
                cure = "Write {secret: NAME}: letters, digits and '_'."
                yield OptionProblem(path=path, message="it does not name a secret.", cure=cure)
        else:
            yield from _plain_header(path, name, value)
        seen.add(lower)


def _plain_header(path: tuple[str, ...], name: str, value: JsonValue) -> Iterator[OptionProblem]:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or value != value.strip():
        cure = "Write one line of printable ASCII, without spaces at its ends."
        yield OptionProblem(path=path, message="its value is no text that a header can hold.", cure=cure)
    elif not 1 <= len(value) <= MAX_HEADER_CHARACTERS:
        message = f"its value has {len(value)} characters, not 1 to {MAX_HEADER_CHARACTERS}."
        yield OptionProblem(path=path, message=message, cure="Shorten it.")
    elif _CONFIDENTIAL.search(name) or _CREDENTIAL.match(value):
        cure = "Store its value with `vlmhyperbench secret set NAME`; write {secret: NAME}, with --header secret:NAME."
        yield OptionProblem(path=path, message="a header that may hold a credential is given by name.", cure=cure)


def _fields(params: JsonObject) -> Iterator[OptionProblem]:
    if params.get("max_tokens_field", "max_tokens") not in MAX_TOKENS_FIELDS:
        cure = f"It is one of {', '.join(MAX_TOKENS_FIELDS)}."
        yield OptionProblem(path=("max_tokens_field",), message="it is no name of that field.", cure=cure)
    omit = params.get("omit", ())
    if not isinstance(omit, (list, tuple)) or any(name not in OMITTABLE for name in omit):
        cure = f"Give a list of {', '.join(OMITTABLE)}."
        yield OptionProblem(path=("omit",), message="it names what cannot be left out.", cure=cure)


def _extra_body(extra: JsonValue) -> Iterator[OptionProblem]:
    if not isinstance(extra, Mapping) or len(json.dumps(extra)) > MAX_BODY_CHARACTERS:
        message = f"it is no object of at most {MAX_BODY_CHARACTERS} characters."
        yield OptionProblem(path=("extra_body",), message=message, cure="Give fields of the request's body.")
        return
    for name, value in extra.items():
        path = ("extra_body", str(name))
        if value is None:
            yield OptionProblem(path=path, message="null is not sent.", cure="Leave it out.")
        elif name in _OWNED:
            yield OptionProblem(path=path, message="this field is the platform's own.", cure="Leave it out.")
        elif name in MAX_TOKENS_FIELDS:
            cure = f"Set max_tokens in decoding, and max_tokens_field to one of {', '.join(MAX_TOKENS_FIELDS)}."
            yield OptionProblem(path=path, message="decoding says how long an answer may be.", cure=cure)
        elif name in _DECODED:
            where = "response_format of the run" if name == "response_format" else f"{name} in decoding"
            message = "a field that the run's record states cannot be set here."
            yield OptionProblem(path=path, message=message, cure=f"Set {where}; omit leaves a field out.")
