"""`python -m vlmhyperbench_gateway.bodies`: write the request bodies of load plans, by the adapter of the target.

This is a long-lived child. A JSON line on stdin names a file of requests and the file for their bodies. A JSON line on
stdout answers it: `done`, or `error` with the ordinal of the request that cannot be translated. After an error nothing
is written. Requests that are measured at the gateway are written unchanged, because the gateway translates them.
"""

from __future__ import annotations

import json
import os
import sys
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

import numpy as np

from vlmhyperbench.errors import STORAGE_FULL, InvalidInput, NotFound, Unavailable, VlmHyperBenchError, is_disk_full
from vlmhyperbench_gateway.adapters import load_adapter, to_bytes, write_json
from vlmhyperbench_gateway.images import to_data_url
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.message_images import map_images
from vlmhyperbench_sdk.protocols import Backend
from vlmhyperbench_sdk.types import JsonObject, JsonValue

ROW_DTYPE = [("ordinal", "<i8"), ("offset", "<i8"), ("bytes", "<i8"), ("sha256", "S64")]
"""Columns of `<out>.npy`, one row per request, in the order of the requests."""

CACHE_BYTES = 64 * 1024 * 1024

_REFERENCE = "sha256:"


def main() -> int:
    """Answer lines until stdin closes; exit 2 if the environment is malformed."""
    try:
        environment = EngineEnvironment.take(os.environ)
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 2
    for line in sys.stdin:
        print(json.dumps(_answer(line, environment.adapters)), flush=True)
    return 0


def write_bodies(adapter: Backend, requests: Path, out: Path, images: Mapping[str, str]) -> int:
    """Append a body per line of `requests` to `out`, write `<out>.npy`, and return the number of rows.

    Raises:
        RequestRefused: a request cannot be translated; `out` is as it was before.
    """
    rows: list[tuple[int, int, int, bytes]] = []
    cache = _ImageCache(images)
    with requests.open(encoding="utf-8") as lines, out.open("ab") as bodies:
        start = bodies.seek(0, os.SEEK_END)
        try:
            for line in lines:
                _write_body(adapter, json.loads(line), bodies, rows, cache)
        except BaseException:
            with suppress(OSError):  # the disk is full, which the error that is raised says already
                bodies.truncate(start)
            raise
    table = out.with_name(out.name + ".npy")
    np.save(table, np.array(rows, dtype=ROW_DTYPE), allow_pickle=False)
    return len(rows)


class RequestRefused(InvalidInput):
    """One request cannot be translated."""

    def __init__(self, ordinal: int, cause: VlmHyperBenchError) -> None:
        super().__init__(cause.message, cure=cause.cure, code=cause.code)
        self.ordinal = ordinal


def _answer(line: str, allowed: Collection[str]) -> dict[str, JsonValue]:
    try:
        order = json.loads(line)
        adapter = load_adapter(order["backend_class"], allowed)
        rows = write_bodies(adapter, Path(order["requests"]), Path(order["out"]), order["images"])
    except RequestRefused as error:
        return {"event": "error", "ordinal": error.ordinal, "code": error.code, "message": str(error)}
    except VlmHyperBenchError as error:
        return {"event": "error", "ordinal": None, "code": error.code, "message": str(error)}
    except OSError as error:
        code = STORAGE_FULL if is_disk_full(error) else Unavailable.code
        return {"event": "error", "ordinal": None, "code": code, "message": str(error)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{type(error).__name__}: {error}"
        return {"event": "error", "ordinal": None, "code": "invalid_input", "message": message}
    return {"event": "done", "rows": rows}


def _write_body(
    adapter: Backend,
    line: Mapping[str, JsonObject],
    bodies: IO[bytes],
    rows: list[tuple[int, int, int, bytes]],
    cache: _ImageCache,
) -> None:
    ordinal = int(str(line["ordinal"]))
    try:
        request = map_images(line["request"], cache.embed)
        body = write_json(request) if adapter.measured_at == "gateway" else to_bytes(adapter, request)
    except VlmHyperBenchError as error:
        raise RequestRefused(ordinal, error) from error
    rows.append((ordinal, bodies.tell(), len(body), sha256(body).hexdigest().encode()))
    bodies.write(body)


class _ImageCache:
    """Data URLs of images by content: the most recently used ones, bounded in bytes."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths
        self._urls: OrderedDict[str, str] = OrderedDict()
        self._size = 0

    def embed(self, url: str) -> str:
        """Replace `sha256:<hash>` by the image's data URL; other URLs stay for the adapter's check."""
        if not url.startswith(_REFERENCE):
            return url
        if url in self._urls:
            self._urls.move_to_end(url)
            return self._urls[url]
        path = self._paths.get(url.removeprefix(_REFERENCE))
        if path is None or not Path(path).is_file():
            raise NotFound(f"The image {url} is not in the cache.", code="image_missing")
        data_url = to_data_url(Path(path).read_bytes())
        self._urls[url] = data_url
        self._size += len(data_url)
        while self._size > CACHE_BYTES and len(self._urls) > 1:
            self._size -= len(self._urls.popitem(last=False)[1])
        return data_url


if __name__ == "__main__":
    sys.exit(main())
