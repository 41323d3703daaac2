"""Joining another machine's stack: what is sent where, what is stored, and what is told about clocks and homes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from vlmhyperbench.client.joining import Membership, join, read_token
from vlmhyperbench.domain.clocks import MAX_CLOCK_DIFFERENCE
from vlmhyperbench.errors import Conflict, Denied, InvalidInput, VlmHyperBenchError
from vlmhyperbench.settings import Settings, store, stored_path

CA = "-----BEGIN CERTIFICATE-----\n"
JOINED = {
    "version": "0.1.0",
    "settings": {
        "database_url": "postgresql+psycopg://worker:secret@10.0.0.1:8771/db?sslmode=verify-full",
        "redis_url": "rediss://:secret@10.0.0.1:8772/0",
        "storage_url": "s3://bucket/x",
        "storage_s3": {"access_key_id": "id", "secret_access_key": "secret"},
        "timers": {"lease_s": 40.0},
    },
    "ca_pem": CA,
    "s3_ca_pem": CA,
    "proof": {"key": "joins/x", "sha256": "0" * 64},
}


class Server:
    """An API that gives one answer, and keeps what it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.answer: dict[str, Any] = dict(JOINED)
        self.asked: list[dict[str, Any]] = []


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            served.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"at": datetime.now(UTC).isoformat(), **served.answer}).encode()
            self.send_response(served.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        served.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        http.shutdown()
        thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    return tmp_path


def enter(server: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Membership:
    return join(server, "token", kind="inference", settings=Settings.load(), ca_file=None, now=now)


def test_what_the_server_gives_is_stored_for_its_owner_only(server: Server, home: Path) -> None:
    settings = enter(server.url).settings
    assert server.asked[0]["token"] == "token"
    assert stored_path(home).stat().st_mode & 0o777 == 0o600
    assert settings.server_url == server.url
    assert settings.timers.lease_s == 40
    assert f"sslrootcert={home / 'run' / 'ca.pem'}" in settings.database_url.get_secret_value()
    assert settings.storage_s3.revealed()["ca_file"] == str(home / "run" / "s3-ca.pem")
    assert all((home / "run" / name).stat().st_mode & 0o777 == 0o600 for name in ("ca.pem", "s3-ca.pem"))


def test_a_home_joins_the_same_server_again_and_no_other(server: Server, home: Path) -> None:
    enter(server.url)
    enter(server.url + "/")
    with pytest.raises(Conflict) as refused:
        enter("https://other:8770")
    assert refused.value.code == "joined_elsewhere"
    assert len(server.asked) == 2


def test_the_home_of_a_stack_is_not_taken(server: Server, home: Path) -> None:
    store(home, {"api_port": 8760})
    with pytest.raises(Conflict) as refused:
        enter(server.url)
    assert (refused.value.code, server.asked) == ("own_stack", [])


@pytest.mark.parametrize("offset_s", [-300, 300])
def test_how_far_the_clock_is_off_is_known(server: Server, home: Path, offset_s: int) -> None:
    ahead = enter(server.url, now=lambda: datetime.now(UTC) + timedelta(seconds=offset_s)).clock_ahead
    assert abs(ahead) > MAX_CLOCK_DIFFERENCE
    assert (ahead > timedelta(0)) == (offset_s > 0)
    assert abs(ahead) <= timedelta(seconds=301)


def test_a_slow_answer_is_no_wrong_clock(server: Server, home: Path) -> None:
    instants = iter([datetime.now(UTC) - timedelta(seconds=60), datetime.now(UTC) + timedelta(seconds=1)])
    assert abs(enter(server.url, now=lambda: next(instants)).clock_ahead) <= MAX_CLOCK_DIFFERENCE


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://10.255.0.1:8770", "insecure"), ("10.0.0.1:8770", "invalid_input"), ("https://:1", "invalid_input")],
)
def test_a_token_is_sent_to_no_address_that_is_not_safe(home: Path, url: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        enter(url)
    assert refused.value.code == code


def test_a_refusal_and_another_server_are_told_apart(server: Server, home: Path) -> None:
    server.status = 401
    server.answer = {"title": "x", "status": 401, "code": "token_expired", "message": "m", "cure": "c", "errors": []}
    with pytest.raises(Denied) as refused:
        enter(server.url)
    assert refused.value.code == "token_expired"
    server.status, server.answer = 200, {}
    with pytest.raises(VlmHyperBenchError) as refused_too:
        enter(server.url)
    assert refused_too.value.code == "no_api"
    assert not stored_path(home).exists()


def test_a_token_is_read_from_a_file_or_the_environment_which_forgets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLMHB_JOIN_TOKEN", "of-environment")
    (tmp_path / "token").write_text("of-file\n")
    assert read_token(None) == "of-environment"
    with pytest.raises(InvalidInput):
        read_token(None)
    assert read_token(tmp_path / "token") == "of-file"
    for wrong in (tmp_path / "absent", tmp_path):
        with pytest.raises(InvalidInput):
            read_token(wrong)
