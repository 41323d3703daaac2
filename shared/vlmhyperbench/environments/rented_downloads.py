"""Let a rented machine download files of a model itself, so that they do not pass this machine's uplink."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from vlmhyperbench.environments.programs import variables_like
from vlmhyperbench.environments.rented_records import RentedRecord
from vlmhyperbench.environments.skypilot import log_of
from vlmhyperbench.environments.ssh import SSH_VARIABLES
from vlmhyperbench.processes import start_child

FETCH: Final = Path(__file__).with_name("rented_fetch.py")
"""The program that downloads, which is sent with the packages of the engine."""


async def download_there(
    record: RentedRecord,
    urls: Mapping[Path, str],
    hashes: Mapping[str, str],
    arrived: Callable[[int], Awaitable[object]],
) -> set[Path]:
    """Return which files have arrived on the machine with the right hash; why others have not is in its log.

    A file that does not arrive in this way is no error, since it can be sent from here: the machine may not reach the
    source, a URL may have expired, or the source may have another file by now.

    Args:
        record: The record of the machine.
        urls: File of this machine → URL from which anybody may download it. No URL is in an argument or in a log.
        hashes: Path → SHA-256.
        arrived: Is told how many bytes have arrived.
    """
    if not urls:
        return set()
    machine = record.rented
    there = {machine.sent(str(file)): file for file in urls}
    order = [
        {"url": urls[file], "path": path, "size_bytes": file.stat().st_size, "sha256": hashes[str(file)]}
        for path, file in there.items()
    ]
    fetched = set[Path]()
    argv = machine.ssh(record.hosts, [machine.python, "-I", "-S", machine.sent(str(FETCH))])
    record.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log_of(record.name, record.logs).open("a", encoding="utf-8") as log:
        async with await start_child(
            argv,
            env=variables_like(SSH_VARIABLES),
            inherited=(),
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        ) as child:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            while text := (await child.stdout.readline()).decode("utf-8", "replace"):
                if not (text.startswith("{") and text.endswith("}\n")):  # of ssh, or cut with the connection
                    log.write(text)
                    continue
                line = json.loads(text)
                if line.get("why"):
                    log.write(f"{line['path']} cannot be downloaded there and is sent: {line['why']}\n")
                elif "path" in line:
                    fetched.add(there[line["path"]])
                await arrived(line["bytes"])
    return fetched
