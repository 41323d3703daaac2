"""Make the pictures of the dashboard: every page in light and dark, from a stack that has run what they show.

Usage: python -m tests.browser.pictures [--out FOLDER] [--widths 1440] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.pictured import filled
from tests.support.stack import ROOT, Stack
from vlmhyperbench.cli.stack import page_link

FOLDER = ROOT / "docs/images"
WIDTH = 1440
HEIGHTS = {390: 2400, WIDTH: 1200, 2560: 1800}
"""Width of a window to the largest height of a picture; a page that is longer is cut."""
LEAST_HEIGHT = 720
COLOURS = 160
MAX_BYTES = 4_000_000
_PATIENCE_MS = 60_000
_LATER = {"run-live": ".live-strip .ticks"}
"""What some pages show only once the live feed has sent it."""
_DRAWN = """
() => [...document.querySelectorAll('main .chart')].every(chart =>
    Math.abs((chart.querySelector('.main-svg')?.clientWidth ?? -9) - chart.clientWidth) < 2)
  && [...document.images].every(image => image.complete)
  && document.getAnimations().every(({playState, effect}) =>
    playState !== 'running' || effect.getTiming().iterations === Infinity)
"""


_RENAME = """
names => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    for (const [path, name] of names) if (text.data.includes(path)) text.data = text.data.replaceAll(path, name);
  }
}
"""
"""Pictures show no path of the machine that made them."""


def main() -> None:
    """Write the pictures, and print the size of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--widths", type=int, nargs="+", choices=HEIGHTS, default=[WIDTH])
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    total = 0
    with filled() as (stack, addresses), _page(stack) as page:
        wanted = {name: address for name, address in addresses.items() if not given.only or name in given.only}
        for name, address in wanted.items():
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                page.goto(f"{stack.home.api_url()}{address}")
                page.locator(_LATER.get(name, "main")).wait_for()
                for width in given.widths:
                    suffix = "" if width == WIDTH else f"-{width}"
                    path = given.out / f"dashboard-{name}-{theme}{suffix}.png"
                    total += _write(page, width, path, _names(stack))
                    print(f"{path.name} {path.stat().st_size / 1000:.0f} KB", flush=True)
    print(f"{total / 1e6:.1f} MB")
    if given.widths == [WIDTH] and total > MAX_BYTES:
        raise SystemExit(f"The pictures have {total:,} bytes together, more than {MAX_BYTES:,}.")


@contextmanager
def _page(stack: Stack) -> Iterator[Page]:
    """Open a browser that has signed in."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        page = browser.new_context().new_page()
        page.set_default_timeout(_PATIENCE_MS)
        expect.set_options(timeout=_PATIENCE_MS)
        page.goto(str(page_link(stack.home)))
        expect(page.get_by_role("heading", name="Devices")).to_be_visible()
        yield page
        browser.close()


def _names(stack: Stack) -> list[tuple[str, str]]:
    """Return what stands in pictures in the place of each path."""
    registries = Path(os.environ["VLMHB_REGISTRIES"])
    return [(str(registries), "registries"), (str(stack.home.root), "~/.vlmhyperbench"), (f"{ROOT}/", "")]


def _write(page: Page, width: int, path: Path, names: list[tuple[str, str]]) -> int:
    page.set_viewport_size({"width": width, "height": LEAST_HEIGHT})
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
    page.wait_for_function(_DRAWN)
    height = page.evaluate("Math.max(document.documentElement.scrollHeight, window.innerHeight)")
    page.set_viewport_size({"width": width, "height": min(height, HEIGHTS[width])})
    page.wait_for_function(_DRAWN)
    page.evaluate(_RENAME, names)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path.stat().st_size


if __name__ == "__main__":
    main()
