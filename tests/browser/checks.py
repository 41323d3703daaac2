"""What every page of the dashboard must pass in a browser: the rules of WCAG AA, and nothing wider than the window."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Error, Page

ROOT = Path(__file__).parents[2]
_AXE = ROOT / "services/api/dashboard/node_modules/axe-core/axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_FIND = (
    "rules => axe.run(document, {runOnly: rules}).then(found => found.violations.map("
    "violation => [violation.id, violation.nodes.map(node => node.html).slice(0, 3)]))"
)
_WIDE = (
    "() => [...document.querySelectorAll('main *')]"
    ".filter(each => each.getBoundingClientRect().right > window.innerWidth)"
    ".slice(0, 12).map(each => each.cloneNode(false).outerHTML.slice(0, 120))"
)


def check_page(page: Page, address: str = "the page") -> None:
    """Fail on what axe finds, and on a page that is wider than its window; the messages name the address."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found = page.evaluate(_FIND, _RULES)
    assert not found, f"{address}: {found}"
    with suppress(Error):  # figures follow a window that was just resized
        page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth", timeout=30_000)
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    wide = page.evaluate(_WIDE) if overflow > 0 else []
    assert overflow <= 0, f"{address} is {overflow} pixels wider than the window: {wide}"
