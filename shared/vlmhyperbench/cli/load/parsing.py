"""What the flags of `load` say: URLs, limits, sweeps, precisions, keys and pictures; every mistake names its flag."""

from __future__ import annotations

import mimetypes
import os
import re
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from vlmhyperbench.domain.slo import slo_percent
from vlmhyperbench.load.bodies import OWN_FIELDS, data_url
from vlmhyperbench.load.series import Axis
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

MAX_POINTS = 100
MAX_SOCKET_BYTES = 107 if sys.platform == "linux" else 103
"""Of a Unix socket's path: `sun_path` less the zero at its end."""


def complete_url(url: str) -> str:
    """Make the URL of chat completions of a base URL with or without `/v1`; a longer path is taken as it is.

    Raises:
        InvalidInput: it is no http or https URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidInput(f"{url!r} is no URL: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url!r} is no URL.", cure="Write http://host:port or https://host.")
    path = parts.path.rstrip("/")
    match path:
        case "":
            path = "/v1/chat/completions"
        case _ if path.endswith("/v1"):
            path += "/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def check_socket(path: Path) -> str:
    """See that somebody may listen at a path, and return it as an address.

    Raises:
        NotFound: nothing is there.
        InvalidInput: it is no socket, or longer than an address may be.
    """
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:
        raise NotFound(
            f"--unix-socket {path} cannot be found: {error.strerror}.", cure="Start the server, or correct the path."
        ) from error
    if not is_socket:
        raise InvalidInput(f"--unix-socket {path} is no socket.", cure="Give the path at which the server listens.")
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise InvalidInput(
            f"--unix-socket {path} is longer than the {MAX_SOCKET_BYTES} bytes that an address may have.",
            cure="Give a path relative to where you are, or a shorter link to it.",
        )
    return str(path)


def parse_slo(text: str) -> dict[str, float]:
    """Read limits like `ttft_p99<500ms,tpot<50`.

    Raises:
        InvalidInput: a limit has another form, or bounds what is not measured.
    """
    limits: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("<")
        digits = value.strip().removesuffix("ms").strip()
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", digits):
            raise InvalidInput(f"--slo: {part!r} is no limit.", cure="Write name<milliseconds: ttft_p99<500.")
        slo_percent(name.strip())
        limits[name.strip()] = float(digits)
    return limits


def check_fit(flags: Mapping[str, tuple[bool, bool, str]]) -> None:
    """See that no flag is given that would do nothing.

    Args:
        flags: Flag → whether it is given, whether what it needs is there, and what that is.

    Raises:
        InvalidInput: one would.
    """
    for flag, (is_given, fits, needed) in flags.items():
        if is_given and not fits:
            raise InvalidInput(f"{flag} needs {needed}.", cure=f"Give {needed}, or leave {flag} out.")


def parse_sweep(text: str) -> tuple[Axis, tuple[float, ...]]:
    """Read `rate=5,10,20` or `concurrency=1,2,4`.

    Raises:
        InvalidInput: it has another form, a value comes twice, or there are too many.
    """
    axis, _, listed = text.partition("=")
    parts = [part.strip() for part in listed.split(",")]
    if axis not in ("rate", "concurrency") or not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", part) for part in parts):
        raise InvalidInput(f"--sweep {text!r} is no sweep.", cure="Write rate=5,10,20 or concurrency=1,2,4.")
    values = tuple(map(float, parts))
    if len(set(values)) != len(values) or len(values) > MAX_POINTS:
        raise InvalidInput(f"--sweep takes up to {MAX_POINTS} values, each once.", cure="Leave some out.")
    return cast("Axis", axis), values


def parse_precision(text: str) -> float:
    """Read `2%` or `0.02`.

    Raises:
        InvalidInput: it is no share above 0 and below 1.
    """
    digits = text.strip().removesuffix("%").strip()
    share = float(digits) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", digits) else 0.0
    share = share / 100 if "%" in text else share
    if not 0 < share < 1:
        raise InvalidInput(f"--until-precision {text!r} is no precision.", cure="Write 2% or 0.02.")
    return share


def parse_extra_body(text: str | None, *, ignore_eos: bool) -> JsonObject:
    """Read the fields that every request holds besides.

    Raises:
        InvalidInput: they are no JSON object, or one is a field that the load sets itself.
    """
    fields: dict[str, JsonValue] = {} if text is None else parse_object(text, what="--extra-body")
    for name in OWN_FIELDS:
        if name in fields:
            cure = {
                "model": "Give --model.",
                "messages": "Give --prompt, --prompt-tokens, --image or --images.",
                "max_tokens": "Give --output-tokens.",
                "max_completion_tokens": "Give --output-tokens.",
                "n": "Leave n out: load reads one choice of each answer.",
            }.get(name, f"Leave {name} out.")
            raise InvalidInput(f"--extra-body: load sets {name} itself.", cure=cure)
    if ignore_eos:
        if fields.get("ignore_eos", True) is not True:
            raise InvalidInput("--ignore-eos and --extra-body contradict each other.", cure="Give one of them.")
        fields["ignore_eos"] = True
    return fields


def read_key(name: str) -> str:
    """Read the server's key from the environment.

    Raises:
        InvalidInput: the variable is not set or empty.
    """
    key = os.environ.get(name, "")
    if not key:
        raise InvalidInput(f"The environment variable {name} is not set.", cure="Set it to the server's key.")
    return key


def read_image(path: Path) -> str:
    """Read a picture as a data URL.

    Raises:
        NotFound: it cannot be read.
    """
    try:
        return data_url(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "image/png")
    except OSError as error:
        raise NotFound(f"The image {path} cannot be read: {error.strerror}.") from error
