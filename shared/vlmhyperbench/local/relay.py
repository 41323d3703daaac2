"""TLS for the embedded Postgres and Valkey, whose programs are built without it: a relay that other machines reach.

The relay ends TLS and passes the bytes on to the server's socket on this machine; both servers still ask for their
passwords. A client of Postgres asks for TLS in Postgres' protocol before the handshake, and is refused without it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from vlmhyperbench.addresses import KEEP_ALIVE
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.settings import Settings

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 400
_HANDSHAKE_S = 10.0
_BLOCK_BYTES = 65536
_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
"""Codes of the first packet of Postgres' protocol that ask for an encrypted connection."""
_NO_TLS = b"SFATAL\0C28000\0MThis server accepts connections with TLS only: set sslmode=verify-full.\0\0"

_UNSENT_MS = 15_000
"""How long bytes may wait for their receipt until the client counts as gone."""

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open = Callable[[], Awaitable[Opened]]


@dataclass(slots=True)
class Relay:
    """A door for one server."""

    tls: ssl.SSLContext
    open: Open
    """Connects to the server on this machine."""
    asks_first: bool
    """Whether clients ask for TLS in the protocol of Postgres."""
    _connections: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side closes it."""
        self._connections += 1
        try:
            if self._connections > MAX_CONNECTIONS:
                return
            _keep_alive(writer)
            if self.asks_first:
                async with asyncio.timeout(_HANDSHAKE_S):
                    if not await _begin(reader, writer, self.tls):
                        return
            server_reader, server_writer = await self.open()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass_on(reader, server_writer))
                    group.create_task(_pass_on(server_reader, writer))
            finally:
                server_writer.close()
        except (OSError, TimeoutError, EOFError) as error:
            log.debug("A connection ended: %s", error)
        finally:
            self._connections -= 1
            writer.close()


async def _begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> bool:
    """Do what precedes the handshake in Postgres' protocol, and the handshake; return False if it is refused."""
    while True:
        length, code = struct.unpack("!II", await reader.readexactly(8))
        if (length, code) == (8, _SSL_REQUEST):
            writer.write(b"S")
            await writer.start_tls(tls)
            return True
        if (length, code) != (8, _GSS_REQUEST):
            writer.write(b"E" + struct.pack("!I", len(_NO_TLS) + 4) + _NO_TLS)
            await writer.drain()
            return False
        writer.write(b"N")


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the source ends, then close the target, which ends the other direction."""
    with suppress(OSError):  # either machine may vanish
        while data := await reader.read(_BLOCK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice that a machine has vanished, so that the server ends what its connections have begun, and frees locks."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux has it
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNSENT_MS)


@asynccontextmanager
async def relays(listening: Listening, settings: Settings, tls: ssl.SSLContext) -> AsyncIterator[None]:
    """Relay both servers until the block ends.

    Raises:
        OSError: a port cannot be used.
    """
    folder = parse_qs(urlsplit(settings.database_url.get_secret_value()).query)["host"][0]
    redis = urlsplit(settings.redis_url.get_secret_value())
    postgres = Relay(tls, lambda: asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432"), asks_first=True)
    valkey = Relay(tls, lambda: asyncio.open_connection(redis.hostname, redis.port), asks_first=False)
    async with (
        await asyncio.start_server(postgres.handle, listening.host, listening.postgres_port),
        await asyncio.start_server(
            valkey.handle, listening.host, listening.redis_port, ssl=tls, ssl_handshake_timeout=_HANDSHAKE_S
        ),
    ):
        yield


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listening = Listening.of_environment()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificates = Certificates(settings.home / "tls")
    tls.load_cert_chain(certificates.cert_file, certificates.key_file)
    async with relays(listening, settings, tls):
        log.info("Postgres and Redis are reached by TLS at %s.", listening.host)
        await stop.wait()


def main() -> int:
    """Relay until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_serve(Settings.load()))
    except (VlmHyperBenchError, OSError) as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
