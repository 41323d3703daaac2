"""Parse the flags of `load`: URLs, limits, sweeps, precisions, keys and images; each error names its flag."""

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
_URL_CURE = "Write http://HOST:PORT or https://HOST."
MAX_SOCKET_BYTES = 107 if sys.platform == "linux" else 103
"""Maximum length of a Unix socket's path: that of `sun_path` without the zero at its end."""


def complete_url(url: str) -> str:
    """Return the URL of chat completions for a base URL with or without `/v1`; a longer path is not changed.

    Raises:
        InvalidInput: the text is not an http or https URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidInput(f"{url!r} is not a URL: {error}.", cure=_URL_CURE) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url!r} is not an http or https URL.", cure=_URL_CURE)
    if "@" in parts.netloc:
        raise InvalidInput(
            "The URL contains a user name or password.",
            cure="Remove them; --api-key-env NAME names the environment variable that holds a key.",
        )
    path = parts.path.rstrip("/")
    match path:
        case "":
            path = "/v1/chat/completions"
        case _ if path.endswith("/v1"):
            path += "/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def check_socket(path: Path) -> str:
    """Check that a path is a Unix socket and can be used as an address, and return it as text.

    Raises:
        NotFound: the path does not exist.
        InvalidInput: it is not a socket, or it is too long for an address.
    """
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:
        raise NotFound(
            f"--unix-socket {path} cannot be used: {error.strerror}.", cure="Start the server, or correct the path."
        ) from error
    if not is_socket:
        raise InvalidInput(f"--unix-socket {path} is not a socket.", cure="Give the path at which the server listens.")
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise InvalidInput(
            f"--unix-socket {path} is too long: the path of a socket may have {MAX_SOCKET_BYTES} bytes.",
            cure="Give a path relative to the current folder, or a shorter link to it.",
        )
    return str(path)


def parse_slo(text: str) -> dict[str, float]:
    """Parse limits such as `ttft_p99<500ms,tpot<50`; return name → limit in ms.

    Raises:
        InvalidInput: a limit has another form, or its name is not that of a time.
    """
    limits: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("<")
        digits = value.strip().removesuffix("ms").strip()
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", digits):
            raise InvalidInput(
                f"--slo: {part!r} is not a limit.", cure="Write NAME<MILLISECONDS, for example ttft_p99<500."
            )
        slo_percent(name.strip())
        limits[name.strip()] = float(digits)
    return limits


def check_fit(flags: Mapping[str, tuple[bool, bool, str]]) -> None:
    """Check that no flag is given without the flag that it needs.

    Args:
        flags: Flag → whether it is given, whether the needed flag is given, and the needed flag.

    Raises:
        InvalidInput: a needed flag is missing.
    """
    for flag, (is_given, fits, needed) in flags.items():
        if is_given and not fits:
            raise InvalidInput(f"{flag} needs {needed}.", cure=f"Give {needed}, or leave {flag} out.")


def parse_sweep(text: str) -> tuple[Axis, tuple[float, ...]]:
    """Parse `rate=5,10,20` or `concurrency=1,2,4`.

    Raises:
        InvalidInput: the text has another form, a value is repeated, or there are too many values.
    """
    axis, _, listed = text.partition("=")
    parts = [part.strip() for part in listed.split(",")]
    if axis not in ("rate", "concurrency") or not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", part) for part in parts):
        cure = "Write --sweep rate=5,10,20 or --sweep concurrency=1,2,4."
        raise InvalidInput(f"--sweep {text!r} does not name an axis and its values.", cure=cure)
    values = tuple(map(float, parts))
    if len(set(values)) != len(values) or len(values) > MAX_POINTS:
        raise InvalidInput(
            f"--sweep {text[:100]!r} repeats a value, or has more than {MAX_POINTS}.", cure="Remove some values."
        )
    return cast("Axis", axis), values


def parse_precision(text: str) -> float:
    """Parse `2%` or `0.02`.

    Raises:
        InvalidInput: the text is not a share above 0 and below 1.
    """
    digits = text.strip().removesuffix("%").strip()
    share = float(digits) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", digits) else 0.0
    share = share / 100 if "%" in text else share
    if not 0 < share < 1:
        message = f"--until-precision {text!r} is not a share between 0 and 1."
        raise InvalidInput(message, cure="Write --until-precision 2% or --until-precision 0.02.")
    return share


def parse_extra_body(text: str | None, *, ignore_eos: bool) -> JsonObject:
    """Parse the further fields of every request.

    Raises:
        InvalidInput: the text is not a JSON object, or it contains a field that the load sets itself.
    """
    fields: dict[str, JsonValue] = {} if text is None else parse_object(text, what="--extra-body")
    for name in OWN_FIELDS:
        if name in fields:
            cure = {
                "model": "Give --model.",
                "messages": "Give --prompt, --prompt-tokens, --image or --images.",
                "max_tokens": "Give --output-tokens.",
                "max_completion_tokens": "Give --output-tokens.",
                "n": "Leave out n: load reads only one choice of each answer.",
            }.get(name, f"Leave out {name}.")
            raise InvalidInput(f"--extra-body: load sets the field {name} itself.", cure=cure)
    if ignore_eos:
        if fields.get("ignore_eos", True) is not True:
            raise InvalidInput(
                "--extra-body sets ignore_eos to another value than --ignore-eos.", cure="Give only one of them."
            )
        fields["ignore_eos"] = True
    return fields


def read_key(name: str) -> str:
    """Read the server's key from the environment.

    Raises:
        InvalidInput: the variable is not set, or is empty.
    """
    key = os.environ.get(name, "")
    if not key:
        raise InvalidInput(
            f"The environment variable {name} of --api-key-env is not set.",
            cure=f"Run: export {name}=KEY_OF_THE_SERVER",
        )
    return key


def read_image(path: Path) -> str:
    """Read an image file as a data URL.

    Raises:
        NotFound: the file cannot be read.
    """
    try:
        return data_url(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "image/png")
    except OSError as error:
        raise NotFound(f"The image {path} cannot be read: {error.strerror}.", cure="Correct --image.") from error
