"""Join a stack on another machine: exchange a token for the settings of a worker, and store them privately."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from pydantic import ValidationError

from vlmhyperbench.client.connection import is_loopback_host
from vlmhyperbench.client.refusals import refusal_of
from vlmhyperbench.client.trust import trusting
from vlmhyperbench.domain.clocks import clock_ahead
from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.errors import Conflict, InvalidInput, Unavailable
from vlmhyperbench.files import write_whole
from vlmhyperbench.settings import Settings, store, stored_path
from vlmhyperbench.wire.joining import Joined, JoinRequest

TOKEN_VARIABLE = "VLMHB_JOIN_TOKEN"  # noqa: S105 - the name of a variable
_MAX_TOKEN = 1000
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What joining came to."""

    settings: Settings
    joined: Joined
    clock_ahead: timedelta
    """How far the clock of this machine is ahead of the server's, at the least."""


def read_token(path: Path | None) -> str:
    """Read a join token from a file (`-`: stdin), or else from the environment, from which it is removed.

    Raises:
        InvalidInput: there is none, or the file cannot be read.
    """
    from_environment = os.environ.pop(TOKEN_VARIABLE, "")
    if path is None:
        token = from_environment.strip()
    else:
        try:
            token = (sys.stdin.read(_MAX_TOKEN) if str(path) == "-" else path.read_text(encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            message = f"The token file {path} cannot be read: {getattr(error, 'strerror', None) or error}."
            raise InvalidInput(message, cure="Correct --token-file.", code="no_token") from error
    if not token:
        cure = (
            f"Make one on the server with `vlmhyperbench workers token create`, and give its file by --token-file, or "
            f"set {TOKEN_VARIABLE}."
        )
        raise InvalidInput("Joining needs a token.", cure=cure, code="no_token")
    return token


def join(
    server: str, token: str, *, kind: WorkerKind, settings: Settings, ca_file: Path | None, now: Callable[[], datetime]
) -> Membership:
    """Join the stack at a URL and store its settings in this machine's home, readable by their owner only.

    Raises:
        InvalidInput: the URL is not one to which a token may be sent, or the authority cannot be used.
        Conflict: this home has a stack of its own, or the versions differ.
        Denied: the token is wrong, or no longer valid.
        Unavailable: the server does not answer, or is no API.
    """
    server = server.rstrip("/")
    check_server(server)
    _check_home(settings, server)
    asked = JoinRequest(
        token=token,
        kind=kind,
        name=settings.worker_name,
        host=socket.gethostname(),
        version=version("vlmhyperbench"),
        at=now(),
    )
    joined = _ask(server, asked, ca_file)
    ahead = clock_ahead(sent=asked.at, theirs=joined.at, received=now())
    return Membership(settings=_stored(settings.home, server, joined), joined=joined, clock_ahead=ahead)


def check_server(server: str) -> None:
    """Check that a token may be sent to this URL.

    Raises:
        InvalidInput: it is no URL of a server, or the token would be sent in clear text.
    """
    try:
        parts = urlsplit(server)
        host, is_valid = parts.hostname or "", parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:
        host, is_valid = "", False
    if not host or not is_valid:
        raise InvalidInput(f"{server!r} is not the URL of a server.", cure="Write https://HOST:PORT.")
    if parts.scheme == "http" and not is_loopback_host(host):
        raise InvalidInput(
            f"Joining {server} would send the token, and get passwords, in clear text.",
            cure="Use the https:// URL of the server; `vlmhyperbench up --listen ADDRESS` prints it.",
            code="insecure",
        )


def _check_home(settings: Settings, server: str) -> None:
    if settings.server_url not in ("", server):
        raise Conflict(
            f"The workers of {settings.home} have joined another server, {settings.server_url}.",
            cure="Set VLMHB_HOME to another folder for this server.",
            code="joined_elsewhere",
        )
    if not settings.server_url and stored_path(settings.home).exists():
        raise Conflict(
            f"{settings.home} is the home of a stack of its own.",
            cure="Set VLMHB_HOME to another folder for workers that join another machine's stack.",
            code="own_stack",
        )


def _ask(server: str, asked: JoinRequest, ca_file: Path | None) -> Joined:
    host = urlsplit(server).hostname or ""
    try:
        with httpx2.Client(
            timeout=_ANSWER_S, verify=trusting(ca_file), trust_env=not is_loopback_host(host), follow_redirects=False
        ) as client:
            response = client.post(
                f"{server}/api/v1/workers/join",
                content=asked.model_dump_json(),
                headers={"Content-Type": "application/json"},
            )
    except httpx2.TransportError as error:
        raise _unreachable(server, error) from error
    if response.status_code != httpx2.codes.OK:
        raise refusal_of(response.status_code, response.content)
    try:
        return Joined.model_validate_json(response.content)
    except ValidationError as error:
        message = f"What answers at {server} is not the API of VLMHyperBench."
        raise Unavailable(message, cure="Correct --server.", code="no_api") from error


def _unreachable(server: str, error: httpx2.TransportError) -> Unavailable:
    reason = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        cause = reason.partition("CERTIFICATE_VERIFY_FAILED]")[2].rpartition("(")[0].strip(" :") or reason
        return Unavailable(
            f"The certificate of {server} is not trusted: {cause}.",
            cure="Copy the server's authority (ca.pem) to this machine and name it by --ca-file; if it is said to be "
            "not yet valid or expired, check the clock of this machine.",
            code="certificate",
        )
    cure = "Check --server, that the stack was started with `up --listen`, and the firewall between the machines."
    return Unavailable(f"The server {server} does not answer: {reason}.", cure=cure, code="server_unreachable")


def _stored(home: Path, server: str, joined: Joined) -> Settings:
    values = {**joined.settings, "server_url": server}
    folder = stored_path(home).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if joined.ca_pem is not None:
        write_whole(folder / "ca.pem", joined.ca_pem.encode(), mode=0o600)
        values["tls_ca_file"] = str(folder / "ca.pem")
    if joined.s3_ca_pem is not None:
        write_whole(folder / "s3-ca.pem", joined.s3_ca_pem.encode(), mode=0o600)
        s3 = values.get("storage_s3")
        values["storage_s3"] = {**(s3 if isinstance(s3, dict) else {}), "ca_file": str(folder / "s3-ca.pem")}
    store(home, values)
    return Settings.load()


def utc_now() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)
