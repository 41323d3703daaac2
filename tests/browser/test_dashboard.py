"""The dashboard in a real Chromium, in front of a real stack: signing in, every page in both themes and two widths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import check_page
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.cli.stack import page_link

PAGES = (
    "/",
    "/runs",
    "/runs?state=FAILED",
    "/runs/new",
    "/runs/new?model=simulated-instant&task=document-qa",
    "/runs/new?from={run}",
    "/runs/{run}",
    "/runs/{run}?tab=samples",
    "/runs/{run}?tab=samples&against={second}&where=flip%3Dboth_wrong",
    "/runs/{run}/samples/1.0?against={second}",
    "/runs/{run}?tab=performance",
    "/runs/{run}?tab=resources",
    "/runs/{run}?tab=logs",
    "/runs/{run}?tab=configuration",
    "/runs/{run}?tab=provenance",
    "/workers",
    "/workers?past=true",
    "/compare",
    "/compare?runs={run}",
    "/compare?runs={run},{second}",
    "/experiments",
    "/experiments?state=DONE",
    "/experiments/{experiment}",
    "/experiments/{experiment}?quality=metrics.exact_match&speed=latency_p99_ms",
    "/load",
    "/pipelines",
    "/pipelines?pipeline=readers-vote",
    "/pipelines?tab=builder",
    "/pipelines?tab=builder&pipeline=readers-synthesis",
    "/pipelines?tab=history",
    "/pipelines?tab=models&model=tiny-doc-vlm-0.2",
    "/load?preset=vlm&rate=4",
    "/load?mode=trace",
    "/reports",
    "/registry",
    "/registry?kind=models&q=simulated",
    "/registry/models/simulated-instant",
    "/runs?q=second&order=name&where=%5B%22task%3Dsynthetic-questions%22%5D",
    "/compare?runs={run},{second}&gate=rules%3A%0A-%20parity%3A%20same_text%0A%20%20min%3A%201%0A",
    "/leaderboard",
    "/explore",
    "/explore?x=latency_p99_ms&y=output_tokens_per_s&bounds=%5B%22latency_p50_ms%22%5D",
    "/explore?where=%5B%22state%3DFAILED%22%5D",
    "/settings",
    "/settings?tab=preferences",
    "/health",
    "/no/such/page",
)
"""Addresses that are checked; `{run}` and `{second}` are finished runs, `{experiment}` one whose runs have ended."""


@dataclass(frozen=True)
class Dashboard:
    """A stack with a finished run, and the stored session of a browser that has signed in."""

    stack: Stack
    url: str
    run: str
    second: str
    experiment: str
    session: Path

    def link(self) -> str:
        """Return a link that signs in."""
        link = page_link(self.stack.home)
        assert link is not None
        return link


@pytest.fixture(scope="module")
def dashboard(browser: Browser, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Dashboard:
    run = stack.client.runs.create("simulated-instant", name="first <b>run</b> שלום 😀")
    second = stack.client.runs.create("simulated-instant", name="second")
    matrix = {
        "targets": [{"model": "simulated-instant"}],
        "tasks": ["synthetic-questions"],
        "decodings": [{"temperature": 0}, {"temperature": 0.5}],
    }
    experiment = stack.client.experiments.create({"matrix": matrix, "defaults": {"limit": 20}}, name="pair")
    for waited in (run.id, second.id, *(own.id for own in experiment.runs)):
        stack.wait(waited)
    url = str(stack.home.api_url())
    session = tmp_path_factory.mktemp("session") / "state.json"
    found = Dashboard(stack, url, str(run.id), str(second.id), str(experiment.id), session)
    context = browser.new_context()
    page = context.new_page()
    page.goto(found.link())
    expect(page.get_by_role("heading", name="Devices")).to_be_visible(timeout=PATIENCE_S * 1000)
    context.storage_state(path=session)
    context.close()
    return found


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """What went wrong in a page although nobody saw it: messages of the console, requests to elsewhere."""
    faults: list[str] = []
    yield faults
    assert not faults


def _watch(page: Page, url: str, faults: list[str]) -> Page:
    page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: _is_own(request.url, url) or faults.append(f"request to {request.url}"))
    page.set_default_timeout(PATIENCE_S * 1000)
    return page


def _is_own(address: str, url: str) -> bool:
    return address.startswith(("data:", "blob:")) or urlsplit(address).netloc == urlsplit(url).netloc


def test_a_link_signs_in_once_and_leaves_no_token_in_the_address(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    context = browser.new_context()
    page = _watch(context.new_page(), dashboard.url, faults)
    page.goto(dashboard.link())
    expect(page.get_by_role("heading", name="Finished")).to_be_visible()
    assert page.url == f"{dashboard.url}/"
    assert page.evaluate("performance.getEntriesByType('navigation')[0].name.includes('ticket')") is False
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(page.get_by_role("link").filter(has_text="first <b>run</b> שלום")).to_have_count(1)
    context.close()


def test_a_browser_without_a_session_is_told_how_to_get_one(browser: Browser, dashboard: Dashboard) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{dashboard.url}/runs")
    expect(page.get_by_role("alert")).to_contain_text("vlmhyperbench open", timeout=PATIENCE_S * 1000)
    assert "first" not in page.content()
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_passes_axe_fits_its_window_and_asks_nobody_else(
    browser: Browser, dashboard: Dashboard, width: int, theme: str, faults: list[str]
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        storage_state=dashboard.session,
        reduced_motion="reduce",
    )
    page = _watch(context.new_page(), dashboard.url, faults)
    for address in PAGES:
        page.goto(
            dashboard.url + address.format(run=dashboard.run, second=dashboard.second, experiment=dashboard.experiment)
        )
        page.wait_for_load_state("networkidle")
        expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
        check_page(page, address)
    context.close()


def test_a_worker_is_drained_with_a_reason_and_resumed(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    context = browser.new_context(storage_state=dashboard.session)
    page = _watch(context.new_page(), dashboard.url, faults)
    page.goto(f"{dashboard.url}/workers")
    page.get_by_role("button", name="Drain reporting").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Drain", exact=True)).to_be_disabled()
    dialog.get_by_label("Reason").fill("a new <b>disk</b>")
    dialog.get_by_role("button", name="Drain", exact=True).click()
    expect(page.get_by_role("region", name="Drains", exact=True)).to_contain_text("a new <b>disk</b>")
    [drained] = [worker for worker in dashboard.stack.client.workers().items if worker.drained]
    assert (drained.kind, drained.drained) == ("reporting", "by local: a new <b>disk</b>")
    page.get_by_role("region", name="Worker reporting").get_by_role("button", name="Resume reporting").click()
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("region", name="Drains", exact=True)).to_contain_text("Nothing is drained.")
    assert not any(worker.drained for worker in dashboard.stack.client.workers().items)
    context.close()


def test_two_runs_are_chosen_and_compared_by_their_pairs(
    browser: Browser, dashboard: Dashboard, faults: list[str]
) -> None:
    context = browser.new_context(storage_state=dashboard.session)
    page = _watch(context.new_page(), dashboard.url, faults)
    page.goto(f"{dashboard.url}/compare")
    page.get_by_role("link", name="second").click()
    page.get_by_role("link").filter(has_text="first <b>run</b>").click()
    expect(page.get_by_text("Paired: the same samples")).to_be_visible()
    assert (
        page.url.endswith(f"{dashboard.second},{dashboard.run}") or f"{dashboard.second}%2C{dashboard.run}" in page.url
    )
    expect(page.get_by_role("region", name="Baseline", exact=True)).to_contain_text("second")
    page.get_by_role("button", name="Make it the baseline").click()
    expect(page.get_by_role("region", name="Baseline", exact=True)).to_contain_text("first <b>run</b>")
    expect(page.get_by_role("region", name="Differences of metrics")).to_contain_text("Exact match")
    context.close()
