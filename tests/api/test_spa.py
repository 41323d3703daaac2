"""The dashboard's files: public, compressed, immutable, under a strict policy, and for browsers only."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx2
import pytest

from tests.api.conftest import Served
from tests.support.processes import PATIENCE_S
from vlmhyperbench_api import spa

pytestmark = pytest.mark.anyio
SCRIPT = b"console.log(1);" * 40
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of three files, in place of the one that this checkout may have."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><p>dashboard")
    (folder / "assets" / "index-a1.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "assets" / "index-a1.js.br").write_bytes(b"as if by brotli")
    (folder / "assets" / "inter-b2.woff2").write_bytes(b"font")
    monkeypatch.setattr(spa, "static", lambda: folder)
    return folder


def _client(api: Served) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=api.url, trust_env=False, timeout=PATIENCE_S)


async def test_addresses_show_the_dashboard_to_browsers_and_a_404_to_programs(api: Served, build: Path) -> None:
    async with _client(api) as http:
        for path in ("/", "/runs", "/runs/1/samples/2"):
            shown = await http.get(path, headers=HTML)
            assert (shown.status_code, shown.text) == (200, "<!doctype html><p>dashboard")
            assert shown.headers["cache-control"] == "no-cache"
            assert (await http.get(path)).status_code == 404
        assert (await http.get("/api/v1/nothing", headers=HTML)).status_code == 404
        assert (await http.get("/api/nothing", headers=HTML)).json()["code"] == "not_found"
        assert (await http.post("/runs", headers=HTML)).status_code == 404
        assert (await http.get("/metrics", headers=HTML)).status_code == 401


async def test_the_policy_allows_scripts_of_its_own_files_only(api: Served, build: Path) -> None:
    async with _client(api) as http:
        shown = await http.get("/", headers=HTML)
    policy = dict(part.strip().split(" ", 1) for part in shown.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert shown.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("accepted", "coding", "content"),
    [
        ("gzip, deflate, br;q=1.0", "br", b"as if by brotli"),
        ("gzip", "gzip", SCRIPT),
        ("identity", None, SCRIPT),
    ],
)
async def test_a_script_is_sent_in_a_coding_that_the_client_accepts(
    api: Served, build: Path, accepted: str, coding: str | None, content: bytes
) -> None:
    async with (
        _client(api) as http,
        http.stream("GET", "/assets/index-a1.js", headers={"Accept-Encoding": accepted}) as sent,
    ):
        raw = b"".join([part async for part in sent.aiter_raw()])
    assert sent.headers.get("content-encoding") == coding
    assert (gzip.decompress(raw) if coding == "gzip" else raw) == content
    assert sent.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in sent.headers["cache-control"]
    assert sent.headers["vary"] == "Accept-Encoding"


async def test_only_files_of_the_build_are_sent(api: Served, build: Path) -> None:
    (build / "secret.js").write_text("no")
    async with _client(api) as http:
        assert (await http.get("/assets/inter-b2.woff2")).content == b"font"
        for name in ("..%2fsecret.js", "%2e%2e", "index-a1.js.gz", "nothing.js", ".hidden.js", "index-a1.js%00"):
            assert (await http.get(f"/assets/{name}")).status_code in {400, 404, 422}, name


async def test_without_a_build_the_api_runs_and_says_how_to_get_one(
    api: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spa, "static", lambda: tmp_path / "nothing")
    async with _client(api) as http:
        shown = await http.get("/", headers=HTML)
        assert shown.status_code == 503
        assert "<code>make dashboard</code>" in shown.text
        assert (await http.get("/api/v1/health")).status_code == 200
        assert (await api.http.get("/runs")).status_code == 200
