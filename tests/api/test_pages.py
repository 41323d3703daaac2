"""What a browser opens: a link signs in once, a session needs its page's token to write, reports are isolated."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import re
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import polars
import pytest
from sqlalchemy import text

from tests.api.conftest import PEPPER, Served
from tests.api.test_files_and_workers import _add_file, _run
from tests.support.processes import PATIENCE_S
from vlmhyperbench.cli.stack import page_link
from vlmhyperbench.data.images import image_key
from vlmhyperbench.db import api_keys, manifests
from vlmhyperbench.domain.api_keys import hmac_of, prefix_of
from vlmhyperbench.domain.tickets import Purpose, write_ticket
from vlmhyperbench.local.supervisor.home import Home

pytestmark = pytest.mark.anyio
NOWHERE = "00000000-0000-4000-8000-000000000000"
PRIVATE = (f"/reports/{NOWHERE}", f"/files/{NOWHERE}", f"/reports/{NOWHERE}/images/{'a' * 64}")


async def _link(api: Served, key: str = "") -> str:
    answer = await api.http.post("/tickets", headers={"X-API-Key": key} if key else {})
    assert answer.status_code == 201
    assert answer.json()["expires_at"] > datetime.now(UTC).isoformat()
    return str(answer.json()["path"])


def _browser(api: Served) -> httpx2.AsyncClient:
    headers = {"Accept": "text/html,*/*"}
    return httpx2.AsyncClient(base_url=api.url, trust_env=False, headers=headers, timeout=PATIENCE_S)


async def _sign_in(browser: httpx2.AsyncClient, link: str) -> str:
    """Open a link, and return the token that it leaves in the address of the dashboard."""
    answer = await browser.get(link)
    assert answer.status_code == 303
    path, _, token = answer.headers["location"].partition("#token=")
    assert path == "/"
    return str(token)


async def test_the_command_line_s_link_opens_the_page(api: Served, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.run.mkdir(parents=True)
    assert page_link(home) is None, "no stack ever ran there"
    address = urlsplit(api.url)
    home.settings_file.write_text(json.dumps({"api_host": address.hostname, "api_port": address.port}))
    home.api_key_file.write_text(api.key)
    link = await asyncio.to_thread(page_link, home)
    async with _browser(api) as browser:
        assert await _sign_in(browser, str(link))
    home.api_key_file.write_text(api.key[:-1])
    assert await asyncio.to_thread(page_link, home) is None


@pytest.mark.parametrize("path", PRIVATE)
async def test_without_a_session_the_page_shows_how_to_sign_in_and_no_data(api: Served, path: str) -> None:
    await api.http.post("/runs", json={"run": "simulated-instant", "name": "secret-name"})
    for headers in ({}, {"X-API-Key": api.key}, {"Cookie": "vlmhyperbench-8760=nonsense"}):
        async with _browser(api) as browser:
            answer = await browser.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "vlmhyperbench status" in answer.text
        assert "secret-name" not in answer.text


async def test_a_link_opens_one_session_and_the_key_s_scopes_bound_it(api: Served) -> None:
    link = await _link(api)
    async with _browser(api) as browser:
        token = await _sign_in(browser, link)
        session = (await browser.get("/api/v1/session", headers={"X-CSRF-Token": token})).json()
        assert (session["principal"], session["can_write"]) == ("tester-default", True)
        assert {"run:write", "worker:write"} < set(session["scopes"])
    async with _browser(api) as other:
        assert (await other.get(link)).status_code == 401, "a link is good once"
    async with _browser(api) as browser:
        token = await _sign_in(browser, await _link(api, await api.add_key("run:read")))
        assert (await browser.get("/api/v1/runs")).status_code == 200
        assert (await browser.get(f"/reports/{NOWHERE}")).status_code == 403
        refused = await browser.post("/api/v1/runs", json={"run": "simulated-instant"}, headers={"X-CSRF-Token": token})
        assert refused.status_code == 403
    refused = await api.http.post("/tickets", headers={"X-API-Key": await api.add_key("registry:read")})
    assert refused.status_code == 403


async def test_a_link_that_has_expired_opens_nothing_and_names_the_cure(api: Served) -> None:
    purposes: tuple[tuple[Purpose, int], ...] = (("ticket", -1), ("session", 600))
    for purpose, left_s in purposes:  # one that has expired, and what is no ticket
        text = write_ticket(
            purpose,
            prefix=prefix_of(api.key) or "",
            expires_at=int(time.time()) + left_s,
            nonce=secrets.token_urlsafe(16),
            pepper=PEPPER,
            key_hmac=hmac_of(api.key, PEPPER),
        )
        async with _browser(api) as browser:
            answer = await browser.get("/sign-in", params={"ticket": text})
            assert (answer.status_code, dict(browser.cookies)) == (401, {})
        assert "This link has ended." in answer.text
        assert "vlmhyperbench status" in answer.text


async def test_a_session_writes_only_from_its_own_page(api: Served) -> None:
    run_id = await _run(api)
    path = f"/api/v1/runs/{run_id}/pause"
    async with _browser(api) as browser, _browser(api) as second:
        token = await _sign_in(browser, await _link(api))
        other = await _sign_in(second, await _link(api))
        assert (await browser.get("/api/v1/runs")).status_code == 200, "the cookie alone reads"
        assert (await browser.get("/api/v1/session")).json()["can_write"] is False
        for headers in (
            {},
            {"X-CSRF-Token": other},
            {"X-CSRF-Token": token, "Origin": "http://elsewhere.test"},
            {"X-CSRF-Token": token, "Origin": "null"},
            {"X-CSRF-Token": token, "Origin": "http://[bad"},
        ):
            refused = await browser.post(path, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), headers
        assert (await api.http.get(f"/runs/{run_id}")).json()["is_paused"] is False
        for headers in ({"X-CSRF-Token": token}, {"X-CSRF-Token": token, "Origin": api.url}):
            assert (await browser.post(path, headers=headers)).status_code == 200
        assert (await browser.post("/api/v1/tickets", headers={"X-CSRF-Token": token})).status_code == 403


@pytest.mark.parametrize(
    "to", ["//elsewhere.test", "https://elsewhere.test", "/runs?x=1", "/a//b", "runs", "/\\elsewhere"]
)
async def test_a_link_leads_to_pages_of_the_dashboard_only(api: Served, to: str) -> None:
    async with _browser(api) as browser:
        link = await _link(api)
        assert (await browser.get(link, params={"ticket": link.partition("=")[2], "to": to})).status_code == 404
        answer = await browser.get(link, params={"ticket": link.partition("=")[2], "to": f"/runs/{NOWHERE}"})
        assert answer.headers["location"].startswith(f"/runs/{NOWHERE}#token=")


async def test_the_cookie_is_same_site_and_not_visible_to_scripts(api: Served) -> None:
    async with _browser(api) as browser:
        answer = await browser.get(await _link(api))
    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/", "max-age=43200"))


async def test_a_session_ends_with_its_key_and_forged_ones_never_begin(api: Served) -> None:
    key = await api.add_key()
    async with _browser(api) as browser:
        await browser.get(await _link(api, key))
        (name, value), *_ = browser.cookies.items()
        assert (await browser.get("/api/v1/runs")).status_code == 200
        prefix, expires, nonce, signature = value.split(".")
        later = f"{prefix}.{int(expires) + 1}.{nonce}.{signature}"
        ticket = (await _link(api, key)).partition("ticket=")[2]
        for forged in (later, ticket, value[:-1] + ("A" if value[-1] != "A" else "B")):
            for path in ("/api/v1/runs", f"/reports/{NOWHERE}"):
                async with _browser(api) as stranger:
                    answer = await stranger.get(path, headers={"Cookie": f"{name}={forged}"})
                assert answer.status_code == 401
        async with api.database.transaction() as session:
            await api_keys.revoke(session, prefix_of(key) or "", project_id="default", by="tester")
        assert (await browser.get("/api/v1/runs")).status_code == 401
        assert (await browser.get(f"/sign-in?ticket={ticket}")).status_code == 401


async def test_a_message_has_no_scripts_and_may_not_be_framed(api: Served) -> None:
    async with _browser(api) as browser:
        answer = await browser.get(f"/reports/{NOWHERE}")
    policy = answer.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert "<script" not in answer.text
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert hashlib.sha256(style.encode()).hexdigest() in _digests(policy)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


def _digests(policy: str) -> list[str]:
    return [base64.b64decode(result).hex() for result in re.findall(r"'sha256-([^']+)'", policy)]


async def test_a_report_is_shown_in_an_origin_of_its_own_and_other_files_are_downloads(api: Served) -> None:
    run_id = await _run(api)
    async with _browser(api) as browser:
        await _sign_in(browser, await _link(api))
        assert 'href="/files/' not in (await browser.get(f"/reports/{run_id}")).text
        other = await _add_file(api, run_id, "report.md", b"# text")
        assert f'href="/files/{other}"' in (await browser.get(f"/reports/{run_id}")).text
        await _add_file(api, run_id, "report.html", b"<p>hello")
        shown = await browser.get(f"/reports/{run_id}")
        assert shown.text == "<p>hello"
        assert shown.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
        assert "content-disposition" not in shown.headers
        file = await browser.get(f"/files/{other}")
        assert file.content == b"# text"
        assert file.headers["content-disposition"].startswith("attachment")
        assert (await browser.get("/reports/nonsense")).status_code == 404
        assert (await browser.get(f"/files/{NOWHERE}")).status_code == 404
    async with _browser(api) as stranger:
        await stranger.get(await _link(api, await api.add_key(project="other")))
        assert (await stranger.get(f"/reports/{run_id}")).status_code == 404
        assert (await stranger.get(f"/files/{other}")).status_code == 404


async def test_a_stored_image_is_shown_only_for_runs_that_asked_about_it(api: Served) -> None:
    run_id = await _run(api)
    asked, strange = (hashlib.sha256(content).hexdigest() for content in (b"asked", b"strange"))
    for sha256, content in ((asked, b"asked"), (strange, b"strange")):
        api.storage.put(image_key(sha256), content)
    manifest = polars.DataFrame({"index": [0], "images": [[{"sha256": asked, "media_type": "image/png"}]]})
    buffer = io.BytesIO()
    manifest.write_parquet(buffer)
    stored = api.storage.put(f"manifests/{run_id}.parquet", buffer.getvalue())
    async with api.database.transaction() as session:
        await manifests.add(
            session,
            manifest_id=stored.sha256,
            dataset_digest="d" * 64,
            storage_key=stored.key,
            size_bytes=stored.size_bytes,
            samples=1,
            unreadable=0,
            group_columns=(),
        )
        await session.execute(
            text("UPDATE run SET manifest_id = :manifest WHERE id = :id"),
            {"manifest": stored.sha256, "id": UUID(run_id)},
        )
    async with _browser(api) as browser:
        await browser.get(await _link(api))
        image = await browser.get(f"/reports/{run_id}/images/{asked}")
        assert (image.status_code, image.content) == (200, b"asked")
        assert image.headers["content-type"] == "image/png"
        assert image.headers["x-content-type-options"] == "nosniff"
        assert (await browser.get(f"/reports/{run_id}/images/{strange}")).status_code == 404
        assert (await browser.get(f"/reports/{run_id}/images/..%2f..%2fx")).status_code == 404


async def test_a_browser_that_signs_out_ends_its_session_for_everybody_who_has_the_cookie(api: Served) -> None:
    async with _browser(api) as browser, _browser(api) as thief:
        token = await _sign_in(browser, await _link(api))
        thief.cookies.update(dict(browser.cookies))
        assert (await browser.delete("/api/v1/session")).status_code == 403, "it needs the token of its page"
        assert (await thief.get("/api/v1/session")).status_code == 200
        ended = await browser.delete("/api/v1/session", headers={"X-CSRF-Token": token})
        assert (ended.status_code, dict(browser.cookies)) == (204, {})
        assert (await thief.get("/api/v1/session")).status_code == 401
        assert (await thief.get("/api/v1/session", headers={"X-CSRF-Token": token})).status_code == 401
        await _sign_in(thief, await _link(api))
        assert (await thief.get("/api/v1/session")).status_code == 200, "another session of the same key goes on"
    assert (await api.http.delete("/session")).status_code == 403, "a key has no session"
