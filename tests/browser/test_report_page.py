"""A report in a browser: small screens, folds, and every sample found, sorted, opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.shared.reports.builders import PAGES, document_of, evidence, fact, thumbnail
from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.reports.writers.html import to_html
from vlmhyperbench.reports.writers.plots import to_svg

SAMPLES = 100
QUESTION = "What stands in field {}?"
WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [
        fact(i, "no" if i % 4 == 0 else "yes", "yes", question=QUESTION.format(i), completion_tokens=i)
        for i in range(SAMPLES)
    ]
    document = document_of(evidence(rows))
    drawings = {figure.name: to_svg(figure) for figure in document.figures}
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(to_html(document, drawings=drawings, thumbnails={PAGES[0]: thumbnail()}))
    return path.as_uri()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    width = getattr(request, "param", 1280)
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda request: faults.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
    )
    yield page
    context.close()
    assert not faults


def _rows(page: Page) -> list[str]:
    return page.locator(".browser tbody th button").all_inner_texts()


def _open(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".browser").wait_for()


def _wait(page: Page, holds: str, argument: object = None) -> None:
    """Wait until a function holds. Playwright's own waiting evaluates a string, which the report forbids."""
    until(lambda: page.evaluate(holds, argument), holds, PATIENCE_S)


@pytest.mark.parametrize("page", WIDTHS, indirect=True)
def test_nothing_overflows_and_navigation_and_theme_can_be_used(page: Page, address: str) -> None:
    _open(page, address)
    page.locator("main").evaluate("main => main.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == page.evaluate("innerWidth")
    page.get_by_role("link", name="Limitations").click()
    _wait(page, "() => document.getElementById('limitations').getBoundingClientRect().top < innerHeight")
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"


@pytest.mark.parametrize("page", WIDTHS, indirect=True)
def test_folding_takes_half_of_the_height(page: Page, address: str) -> None:
    _open(page, address)
    height = "document.documentElement.scrollHeight"
    folded = page.evaluate(height)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("main details:not([open])").count() == page.locator("figure details").count()
    assert folded < page.evaluate(height) / 2
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(height) == folded


@pytest.mark.parametrize("target", ["ttft", "provenance", "provenance-metrics"])
def test_a_link_to_a_folded_part_unfolds_it(page: Page, address: str, target: str) -> None:
    _open(page, f"{address}#{target}")
    _wait(
        page,
        "name => { const box = document.getElementById(name).getBoundingClientRect();"
        " return box.height > 150 && box.top > -5 && box.top < innerHeight; }",
        target,
    )


def test_a_fold_is_opened_by_the_keyboard(page: Page, address: str) -> None:
    _open(page, address)
    fold = page.locator("#configuration details").first
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    assert fold.get_attribute("open") == ""


def test_every_sample_is_reached_by_its_pages(page: Page, address: str) -> None:
    _open(page, address)
    rows = _rows(page)
    while page.get_by_role("button", name="Next").is_enabled():
        page.get_by_role("button", name="Next").click()
        rows += _rows(page)
    assert rows == [QUESTION.format(i) for i in range(SAMPLES)]


def test_samples_are_searched_filtered_and_sorted(page: Page, address: str) -> None:
    _open(page, address)
    page.get_by_role("searchbox").fill("field 4")
    assert page.locator(".found").inner_text() == f"19 of {SAMPLES} samples", "every word is found somewhere"
    page.get_by_label("Outcome").select_option("something else")
    assert _rows(page) == [QUESTION.format(i) for i in (4, 24, 40, 44, 48, 64, 84)]
    page.get_by_label("Order").select_option("-tokens")
    assert _rows(page) == [QUESTION.format(i) for i in (84, 64, 48, 44, 40, 24, 4)]
    page.get_by_label("Lowest score").fill("0.5")
    assert _rows(page) == []
    page.get_by_label("Outcome").select_option("")
    assert len(_rows(page)) == 12
    page.get_by_role("button", name="latency, ms").click()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"


def test_a_sample_opens_with_its_page_references_and_scores(page: Page, address: str) -> None:
    _open(page, address)
    button = page.locator(".browser tbody th button").first
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    shown = page.locator(".opened").inner_text()
    assert all(text in shown for text in ("expected", "yes", "answered", "no", "ANLS", "output tokens"))
    page.locator(".opened .page").click()
    _wait(page, "width => document.querySelector('#zoom img').naturalWidth === width", thumbnail().width)
    page.get_by_role("button", name="Full size").click()
    assert page.locator("#zoom .full").is_hidden(), "a file has no stored images beside it"
    page.keyboard.press("Escape")
    button.click()
    assert page.locator(".opened").count() == 0


def test_without_javascript_the_report_is_read_and_its_folds_open(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    page.locator("#provenance summary").first.click()
    assert page.locator("#provenance .facts").is_visible()
    assert page.locator(".browser").is_hidden()
    assert page.locator(".samples noscript").is_visible()
    context.close()


def test_folded_parts_are_printed(browser: Browser, address: str, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.emulate_media(media="print")
    page.pdf(path=tmp_path / "report.pdf")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#provenance .facts").is_visible()
    assert page.locator("#ttft svg").is_visible()
    assert page.locator(".browser").is_hidden()
    context.close()
