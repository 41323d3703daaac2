"""A server that answers or refuses requests by their number, with the refusals that were recorded."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.loadgen.driving import respond, serving, whole
from tests.refusals import Refusal

ANSWERED = None
"""The value of `refuse` for a request that is answered."""


class RefusingServer:
    """A server of another project; it keeps the bodies of the requests that it received."""

    def __init__(self, refuse: Callable[[int], Refusal | None]) -> None:
        self.url = ""
        self.bodies: list[dict[str, object]] = []
        self._refuse = refuse

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if head.startswith(b"GET"):
                writer.write(respond(b'{"data": [{"id": "some-model"}]}'))
                continue
            refused = self._refuse(len(self.bodies))
            self.bodies.append(json.loads(body))
            if refused is ANSWERED:
                writer.write(whole("4"))
            else:
                kind = "text/event-stream" if refused.http_status == 200 else "application/json"
                writer.write(respond(refused.body.encode(), status=f"{refused.http_status} No", media_type=kind))


@asynccontextmanager
async def refusing(refuse: Callable[[int], Refusal | None] = lambda _: ANSWERED) -> AsyncIterator[RefusingServer]:
    """Serve at `url`, a base URL that ends with /v1."""
    server = RefusingServer(refuse)
    async with serving(server.answer) as url:
        server.url = url.removesuffix("/chat/completions")
        yield server
