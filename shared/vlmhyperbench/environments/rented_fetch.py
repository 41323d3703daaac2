"""The program with which a rented machine downloads files of a model itself: `python -I -S rented_fetch.py`.

Nothing of the platform is installed there: standard library only. Stdin is a line of JSON, a list of files with `url`,
`path`, `size_bytes` and `sha256`. Its lines on stdout are JSON too: `{"bytes": N}` that have arrived now and then, and
`{"path": PATH, "why": REASON}` of each file at its end; no reason means that it lies there whole. URLs are signed, so
nothing that is printed holds one. It ends with the connection, whose end it notices by writing.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_AT_ONCE = 4
_TRIES = 5
_PIECE = 1024 * 1024
_SILENT_S = 30
_SAY_S = 1.0


class Arrived:
    """Bytes of all files that have arrived."""

    def __init__(self) -> None:
        self.count = 0
        self.unreachable: dict[str, str] = {}
        """Hosts that are not asked again, and why: nothing has come from anywhere, and they do not answer."""
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes; a negative number takes back those of a file that is not kept."""
        with self._lock:
            self.count += count


def fetch(file: dict[str, Any], arrived: Arrived) -> str | None:
    """Download a file; return why it is not here, or None if it is, with the hash that it must have."""
    path, host = Path(file["path"]), urlsplit(file["url"]).netloc
    part = path.with_name(path.name + ".part")
    digest, size, fruitless, why = hashlib.sha256(), 0, 0, "its hash"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as out:
            while size < file["size_bytes"] and fruitless < _TRIES and host not in arrived.unreachable:
                before = size
                time.sleep(fruitless)  # one second longer after each try that brought nothing
                try:
                    for piece in pieces(file["url"], size, file["size_bytes"]):
                        out.write(piece)
                        digest.update(piece)
                        size += len(piece)
                        arrived.add(len(piece))
                except urllib.error.HTTPError as error:
                    why = f"HTTP {error.code}"
                    if error.code < 500:
                        break
                except (OSError, http.client.HTTPException) as error:  # what these say may hold a URL
                    why = type(error).__name__
                    if not arrived.count:
                        arrived.unreachable[host] = why
                fruitless = 0 if size > before else fruitless + 1
        why = arrived.unreachable.get(host, why)
        if size == file["size_bytes"] and digest.hexdigest() == file["sha256"]:
            part.replace(path)
            return None
        part.unlink()
    except OSError as error:
        why = type(error).__name__
    arrived.add(-size)
    return why


def pieces(url: str, start: int, size: int) -> Iterator[bytes]:
    """Yield what one request brings of a file from a byte on, until it ends or is cut."""
    headers = {"Range": f"bytes={start}-"} if start else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- who gives it has checked its scheme
    with urllib.request.urlopen(request, timeout=_SILENT_S) as answer:  # noqa: S310 -- as above
        if start and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise http.client.HTTPException("the source cannot resume")
        while start < size and (piece := answer.read1(min(_PIECE, size - start))):
            start += len(piece)
            yield piece


def say(**line: object) -> None:
    """Write a line; without a reader this is the end."""
    try:
        print(json.dumps(line), flush=True)
    except OSError:
        os._exit(1)


def main() -> None:
    """Download the files of the line on stdin, and say what arrives."""
    files, arrived = json.loads(sys.stdin.buffer.readline()), Arrived()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        paths = {pool.submit(fetch, file, arrived): file["path"] for file in files}
        pending = set(paths)
        while pending:
            ended, pending = wait(pending, timeout=_SAY_S, return_when=FIRST_COMPLETED)
            for each in ended:
                say(path=paths[each], why=each.result(), bytes=arrived.count)
            say(bytes=arrived.count)


if __name__ == "__main__":
    main()
