"""Postgres and Redis over TLS, by whatever connects to them: who is trusted, and what is said when nobody is."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
import redis
from pydantic import SecretStr

from vlmhyperbench.addresses import with_account
from vlmhyperbench.bus import Bus
from vlmhyperbench.db import migrations
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.leadership import Leadership
from vlmhyperbench.errors import Denied, InvalidInput, Unavailable, VlmHyperBenchError
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.local.listening import Listening
from vlmhyperbench.local.relay import relays
from vlmhyperbench.queues.app import make_app
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.reachability import check_reachable

pytestmark = pytest.mark.anyio


def free_port() -> int:
    """Return the first of three free ports."""
    for port in range(20_000, 60_000, 7):
        try:
            for offset in range(3):
                socket.create_server(("127.0.0.1", port + offset)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no free port")


@pytest.fixture
async def remote(tmp_path: Path, database_url: str, redis_url: str) -> AsyncIterator[Settings]:
    """Settings of a worker elsewhere, for servers behind the relay; its storage is a folder that it shares."""
    own = Settings(home=tmp_path / "stack", database_url=SecretStr(database_url), redis_url=SecretStr(redis_url))
    certificates = Certificates(own.home / "tls")
    certificates.prepare({"127.0.0.1"})
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.cert_file, certificates.key_file)
    listening = Listening(host="127.0.0.1", port=free_port())
    database, redis_account = urlsplit(database_url), urlsplit(redis_url)
    async with relays(listening, own, tls):
        yield Settings(
            home=tmp_path / "worker",
            database_url=SecretStr(
                with_account(
                    listening.postgres_url(database.path.strip("/")), str(database.username), str(database.password)
                )
            ),
            redis_url=SecretStr(with_account(listening.redis_url(), "", str(redis_account.password))),
            storage_url=str(tmp_path / "storage"),
            tls_ca_file=certificates.ca_file,
        )


def changed(settings: Settings, **values: object) -> Settings:
    """Return settings as they are read anew."""
    return Settings.model_validate({**dict(settings), **values})


async def refusal(settings: Settings) -> VlmHyperBenchError:
    with pytest.raises(VlmHyperBenchError) as refused:
        await check_reachable(settings)
    assert refused.value.cure
    return refused.value


async def test_whatever_connects_does_so_over_tls(remote: Settings) -> None:
    await check_reachable(remote)
    database_url, redis_url = remote.database_url.get_secret_value(), remote.redis_url.get_secret_value()
    database = Database(database_url)
    await database.check()
    await database.close()
    assert await anyio.to_thread.run_sync(migrations.current, database_url) is not None
    leadership = Leadership(database_url)
    assert await leadership.hold()
    await leadership.close()
    bus = Bus(redis_url)
    assert await bus.is_up()
    await bus.close()
    app = make_app(redis_url)
    with app.connection_for_write() as connection:
        await anyio.to_thread.run_sync(lambda: connection.ensure_connection(max_retries=1, timeout=30))


async def test_a_server_of_another_authority_is_not_trusted(remote: Settings, tmp_path: Path) -> None:
    other = Certificates(tmp_path / "other")
    other.prepare({"127.0.0.1"})
    stranger = changed(
        remote,
        database_url=SecretStr(remote.database_url.get_secret_value().partition("?")[0] + "?sslmode=verify-full"),
        redis_url=SecretStr(remote.redis_url.get_secret_value().partition("?")[0]),
        tls_ca_file=other.ca_file,
    )
    assert (await refusal(stranger)).code == "database_unreachable"
    redis_only = changed(remote, redis_url=stranger.redis_url.get_secret_value())
    error = await refusal(redis_only)
    assert (error.code, "certificate" in error.message) == ("redis_unreachable", True)


async def test_a_server_of_another_name_is_not_trusted(remote: Settings) -> None:
    by_name = remote.database_url.get_secret_value().replace("@127.0.0.1:", "@localhost:")
    error = await refusal(changed(remote, database_url=SecretStr(by_name)))
    assert (error.code, "localhost" in error.message) == ("database_unreachable", True)
    by_name = remote.redis_url.get_secret_value().replace("@127.0.0.1:", "@localhost:")
    assert (await refusal(changed(remote, redis_url=SecretStr(by_name)))).code == "redis_unreachable"


async def test_a_connection_without_tls_is_refused(remote: Settings) -> None:
    plain = remote.database_url.get_secret_value().partition("?")[0] + "?sslmode=disable"
    error = await refusal(changed(remote, database_url=SecretStr(plain)))
    assert (error.code, "sslmode=verify-full" in error.message) == ("database_unreachable", True)
    plain = remote.redis_url.get_secret_value().partition("?")[0].replace("rediss:", "redis:")
    assert isinstance(await refusal(changed(remote, redis_url=SecretStr(plain))), Unavailable)


async def test_a_wrong_password_is_refused_and_not_shown(remote: Settings) -> None:
    password = str(urlsplit(remote.database_url.get_secret_value()).password)
    wrong = remote.database_url.get_secret_value().replace(password, "wrong-password")
    error = await refusal(changed(remote, database_url=SecretStr(wrong)))
    assert (error.code, "wrong-password" in str(error)) == ("database_refused", False)
    joined = changed(remote, database_url=SecretStr(wrong), server_url="https://127.0.0.1:1")
    assert (await refusal(joined)).code == "account_refused"
    password = str(urlsplit(remote.redis_url.get_secret_value()).password)
    wrong = remote.redis_url.get_secret_value().replace(password, "wrong-password")
    assert isinstance(await refusal(changed(remote, redis_url=SecretStr(wrong))), Denied)


async def test_what_is_no_postgres_is_not_passed_on(remote: Settings) -> None:
    url = urlsplit(remote.database_url.get_secret_value())
    async with await anyio.connect_tcp("127.0.0.1", url.port or 0) as connection:
        await connection.send(b"GET / HTTP/1.1\r\n\r\n")
        with anyio.fail_after(60):
            received = await connection.receive()
        assert received.startswith(b"E")


@pytest.mark.parametrize("text", ["", "0.0.0.0", "[::]:8770", "host:99999", "a/b", "user@host", "no.such.host.invalid"])
def test_an_address_that_names_no_machine_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Listening.parse(text)


def test_a_certificate_is_made_anew_only_for_another_name(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.prepare({"10.0.0.1", "box"})
    before = [path.read_bytes() for path in (certificates.ca_file, certificates.cert_file)]
    certificates.prepare({"box"})
    assert [path.read_bytes() for path in (certificates.ca_file, certificates.cert_file)] == before
    certificates.prepare({"10.0.0.2"})
    assert [certificates.ca_file.read_bytes() == before[0], certificates.cert_file.read_bytes() == before[1]] == [
        True,
        False,
    ]
    assert certificates.key_file.stat().st_mode & 0o777 == 0o600


def test_redis_itself_still_asks_for_the_password(redis_url: str) -> None:
    url = redis_url.replace(f":{urlsplit(redis_url).password}@", "")
    with redis.Redis.from_url(url) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
