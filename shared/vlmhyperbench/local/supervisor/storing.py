"""What is known before an embedded stack starts: where it stores, that it can, and whose home it is."""

from __future__ import annotations

import json
import os

from vlmhyperbench.addresses import S3, S3Access
from vlmhyperbench.errors import Conflict
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.storage.s3 import S3Store
from vlmhyperbench_sdk.types import JsonValue

_URL = "VLMHB_STORAGE_URL"
_S3 = "VLMHB_STORAGE_S3__"


def chosen_storage(home: Home) -> dict[str, JsonValue]:
    """Return the settings of the storage, with its keys.

    The database refers to stored files, so a stack that has begun in a bucket stays there until the user names another
    place; keys that are not given again stay, too.
    """
    last = _last(home)
    given = {name.upper(): value for name, value in os.environ.items() if value}
    s3 = {name.removeprefix(_S3).lower(): value for name, value in given.items() if name.startswith(_S3)}
    url = given.get(_URL) or last.get("storage_url") or str(home.storage)
    known = last.get("storage_s3")
    chosen: dict[str, JsonValue] = {**(known if isinstance(known, dict) else {}), **s3}
    return {"storage_url": url, **({"storage_s3": chosen} if chosen else {})}


def check_storage(home: Home) -> None:
    """Check the bucket that a stack would store in, while nothing of the stack is started or written.

    Raises:
        InvalidInput: it is no bucket, or there is none of this name.
        Denied: its keys are refused, or lack a permission.
        Unavailable: S3 does not answer, or boto3 is not installed.
    """
    chosen = chosen_storage(home)
    url = str(chosen["storage_url"])
    if url.startswith(S3):
        S3Store(url, S3Access.model_validate(chosen.get("storage_s3", {}))).check()


def check_own(home: Home) -> None:
    """Check that this home has not joined the stack of another machine, whose settings a stack would replace.

    Raises:
        Conflict: it has.
    """
    server = _last(home).get("server_url")
    if server:
        raise Conflict(
            f"The workers of {home.root} have joined another machine's stack, {server}.",
            cure="Set VLMHB_HOME to another folder for a stack of this machine.",
            code="joined_elsewhere",
        )


def _last(home: Home) -> dict[str, JsonValue]:
    try:
        stored = json.loads(home.settings_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
