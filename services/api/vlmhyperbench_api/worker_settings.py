"""What a worker of another machine gets when it joins: how it reaches the stack, its timers, and nothing else."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from vlmhyperbench.accounts.keeping import Account
from vlmhyperbench.addresses import is_local, with_account
from vlmhyperbench.errors import NotReady, Unavailable
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.types import JsonValue

_ALIKE = ("run_mode", "project", "allowed_target_hosts", "allowed_adapters", "metric_memory_bytes", "timers")
"""Settings that must be the same on all machines of a stack."""


def worker_settings(settings: Settings, address: str, account: Account | None) -> dict[str, JsonValue]:
    """Return the settings of a worker at this address. No secret of the API is among them.

    Args:
        settings: Those of the API.
        address: Where the worker is.
        account: Its account in Postgres and Redis; None: it shares those of the URLs.

    Raises:
        NotReady: the worker could not reach the database or Redis (code `not_reachable`).
    """
    urls = {
        "database_url": (settings.worker_database_url or settings.database_url).get_secret_value(),
        "redis_url": (settings.worker_redis_url or settings.redis_url).get_secret_value(),
    }
    if not _is_loopback(address):
        for name, url in urls.items():
            if is_local(url):
                what = "database" if name == "database_url" else "Redis"
                raise NotReady(
                    f"The {what} of this stack can be reached from its own machine only.",
                    cure="Start the stack with `vlmhyperbench up --listen ADDRESS`, or set "
                    f"VLMHB_WORKER_{name.upper()} for its API.",
                    code="not_reachable",
                )
    if account is not None:
        urls["database_url"] = with_account(urls["database_url"], account.name, account.database_password)
        urls["redis_url"] = with_account(urls["redis_url"], account.name, account.redis_password)
    else:
        _check_has_account(urls["database_url"])
    s3 = {name: value for name, value in settings.storage_s3.revealed().items() if name != "ca_file"}
    alike = settings.model_dump(mode="json", include=set(_ALIKE))
    return {**urls, "storage_url": settings.storage_url, "storage_s3": dict(s3), **alike}


def _check_has_account(database_url: str) -> None:
    if urlsplit(database_url).username is None:
        raise NotReady(
            "VLMHB_WORKER_ACCOUNTS is `shared`, but there is no account that joined workers could share.",
            cure="Write an account into VLMHB_WORKER_DATABASE_URL, or set VLMHB_WORKER_ACCOUNTS=own.",
            code="no_shared_account",
        )


def authority_of(ca_file: Path | None) -> str | None:
    """Return the content of the file of an authority; None where there is no file.

    Raises:
        Unavailable: the file cannot be read.
    """
    if ca_file is None:
        return None
    try:
        return ca_file.read_text(encoding="utf-8")
    except OSError as error:
        message = f"The server's certificate authority {ca_file} cannot be read: {error.strerror or error}."
        raise Unavailable(message, cure="Correct it on the server.") from error


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a transport without addresses, such as that of a test in one process
        return True
