"""Journeys through live pages in a real Chromium: the first visit, a run that is watched, an API that dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.checks import check_page
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.cli.stack import page_link

QUESTIONS = 300
PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture(scope="module")
def session(browser: Browser, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Visit a stack on which nothing has run, and keep the browser's session."""
    stored = tmp_path_factory.mktemp("session") / "state.json"
    context = browser.new_context()
    page = _page(context)
    page.goto(_link(stack))
    expect(page.get_by_role("heading", name="Nothing has run yet")).to_be_visible()
    expect(page.get_by_text("vlmhyperbench demo --keep")).to_be_visible()
    context.storage_state(path=stored)
    context.close()
    return stored


@pytest.fixture
def context(browser: Browser, session: Path) -> Iterator[BrowserContext]:
    context = browser.new_context(storage_state=session, viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def _page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    return page


def _link(stack: Stack) -> str:
    link = page_link(stack.home)
    assert link is not None
    return link


def _start(stack: Stack, name: str) -> str:
    """Start a run of ten minutes, longer than a test waits; with 128 requests in flight it ends in half a minute."""
    entry = {
        "target": {"model": "simulated", "engine_params": {"ttft_ms": 8000, "gap_ms": 5, "tokens": 8}},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": QUESTIONS},
    }
    return str(stack.client.runs.create(entry, name=name).id)


def test_a_run_is_watched_and_retuned_from_its_start_to_its_report(context: BrowserContext, stack: Stack) -> None:
    page = _page(context)
    page.goto(stack.home.api_url())
    run_id = _start(stack, "watched")
    page.get_by_role("region", name="Running now").get_by_role("link", name="watched").click()
    now = page.get_by_role("region", name="Now")
    expect(now.get_by_role("img")).to_be_visible()  # its last requests
    expect(now.get_by_text("CPU")).to_be_visible()
    expect(now.locator("code")).not_to_be_empty()
    page.get_by_role("button", name="4 in flight").click()
    page.get_by_label("Requests in flight").fill("8")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("button", name="8 in flight")).to_be_visible()
    stack.client.runs.retune(run_id, in_flight=128)
    expect(page.get_by_role("link", name="Report")).to_be_visible()
    expect(now).to_have_count(0)
    run = stack.client.runs.get(run_id)
    assert (run.state, run.done) == ("SUCCEEDED", QUESTIONS)
    assert [(change.before, change.in_flight, change.by) for change in run.retunes] == [
        (4, 8, "local"),
        (8, 128, "local"),
    ]
    assert run.headline is not None
    assert run.headline.validity == "retuned"


def test_resources_are_drawn_while_a_run_runs(context: BrowserContext, stack: Stack) -> None:
    run_id = _start(stack, "measured")
    page = _page(context)
    page.goto(f"{stack.home.api_url()}/runs/{run_id}?tab=resources")
    now = page.get_by_role("region", name="Resources now")
    expect(now.get_by_role("heading", name="CPU")).to_be_visible()
    claims = page.get_by_role("region", name="Table of claims and phases")
    expect(claims.get_by_role("row").filter(has_text="generate")).to_contain_text("open")
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            check_page(page, f"resources, {theme}, {width}")
    stack.client.runs.cancel(run_id)
    expect(now).to_have_count(0)


def test_a_page_outlives_the_api_and_shows_what_has_happened_meanwhile(context: BrowserContext, stack: Stack) -> None:
    run_id = _start(stack, "outlives")
    page = _page(context)
    page.goto(f"{stack.home.api_url()}/runs/{run_id}")
    status = page.get_by_role("status")
    expect(status.filter(has_text="Live")).to_be_visible()
    stack.kill("api")
    expect(status.filter(has_text="Reconnecting")).to_be_visible()
    expect(status.filter(has_text="Live")).to_be_visible()
    stack.client.runs.retune(run_id, in_flight=128)
    expect(page.get_by_role("link", name="Report")).to_be_visible()
    seqs = [seq for (seq,) in stack.query("SELECT seq FROM event WHERE stream_id = %s ORDER BY seq", run_id)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_two_tabs_that_cancel_at_once_cancel_the_run_once(context: BrowserContext, stack: Stack) -> None:
    run_id = _start(stack, "twice")
    cancels: list[Route] = []

    def hold(route: Route) -> None:
        """Let the cancels go on together, once both tabs have asked."""
        cancels.append(route)
        if len(cancels) == 2:
            for held in cancels:
                held.continue_()

    context.route("**/cancel", hold)
    tabs = [_page(context), _page(context)]
    for tab in tabs:
        tab.goto(f"{stack.home.api_url()}/runs/{run_id}")
        expect(tab.get_by_role("button", name="Cancel")).to_be_enabled()
    for tab in tabs:
        tab.get_by_role("button", name="Cancel").click()
        tab.get_by_role("button", name="Cancel it").click()
    for tab in tabs:
        expect(tab.get_by_role("button", name="Rerun")).to_be_visible()
        expect(tab.get_by_text("Refused")).to_have_count(0)
    assert stack.client.runs.get(run_id).state == "CANCELLED"
    statement = "SELECT count(*) FROM event WHERE stream_id = %s AND type = 'run.cancel_requested'"
    assert stack.query(statement, run_id) == [(1,)]


def test_a_browser_that_comes_back_without_a_session_says_how_to_sign_in_and_goes_on_then(
    context: BrowserContext, stack: Stack
) -> None:
    run_id = _start(stack, "slept")
    page = _page(context)
    page.goto(f"{stack.home.api_url()}/runs/{run_id}")
    expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    context.clear_cookies()
    stack.kill("api")
    expect(page.get_by_role("heading", name="Sign in with a new link")).to_be_visible()
    expect(page.get_by_text("vlmhyperbench open")).to_be_visible()
    other = _page(context)
    other.goto(_link(stack))
    expect(other.get_by_role("heading", name="Devices")).to_be_visible()
    expect(page.get_by_role("heading", name="slept")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    stack.client.runs.cancel(run_id)
    expect(page.get_by_role("button", name="Rerun")).to_be_visible()


def test_a_page_of_another_origin_gets_no_feed_with_the_sessions_cookie(context: BrowserContext, stack: Stack) -> None:
    page = _page(context)
    page.route(
        "http://elsewhere.example/", lambda route: route.fulfill(body="<p>elsewhere</p>", content_type="text/html")
    )
    page.goto("http://elsewhere.example/")
    address = stack.home.api_url().replace("http", "ws", 1) + "/api/v1/live"
    outcome = page.evaluate(
        "address => new Promise(done => { const socket = new WebSocket(address);"
        " socket.onopen = () => done('open'); socket.onclose = event => done(event.code); })",
        address,
    )
    assert outcome == 1006
    blocked = page.evaluate(
        "address => fetch(address, {credentials: 'include'}).then(() => 'read', () => 'blocked')",
        f"{stack.home.api_url()}/api/v1/runs",
    )
    assert blocked == "blocked"
