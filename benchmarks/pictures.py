"""Make the pictures of the dashboard in docs/images from a stack that has run the demo.

Usage: python -m benchmarks.pictures [--home HOME]

Debian's Chromium opens pages of the newest experiment `demo` whose runs have succeeded, and of its runs.
"""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.dashboard import ARGUMENTS, TIMEOUT_MS
from vlmhyperbench.cli.stack import page_link
from vlmhyperbench.client import Client
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings

FOLDER = Path(__file__).parents[1] / "docs/images"
COLOURS = 192
MAX_BYTES = 200_000
_SETTLED_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A page and the size of its picture."""

    address: str
    width: int = 1180
    height: int = 720
    theme: str = "light"


def main() -> None:
    """Write every picture, and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=Settings.load().home)
    home = Home(parser.parse_args().home)
    pictures = _pictures(Client(home.api_url(), home.api_key()))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        context = browser.new_context(reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(str(page_link(home)))
        page.get_by_role("heading", name="Devices").wait_for()
        for name, picture in pictures.items():
            size = _write(page, f"{home.api_url()}{picture.address}", picture, FOLDER / f"{name}.png")
            print(f"{name}.png {size / 1000:.0f} KB")
        browser.close()


def _pictures(client: Client) -> Mapping[str, Picture]:
    found = (client.experiments.get(row.id) for row in client.experiments.list().items if row.name == "demo")
    experiment = next(one for one in found if all(run.state == "SUCCEEDED" for run in one.runs))
    first, second = (run.id for run in experiment.runs)
    broke = client.runs.samples(second, "flip=broke", against=first, limit=1).items
    sample = broke[0].id if broke else "1.0"
    return {
        "dashboard": Picture(address="/"),
        "dashboard-run": Picture(address=f"/runs/{first}"),
        "dashboard-sample": Picture(address=f"/runs/{second}/samples/{sample}?against={first}"),
        "dashboard-compare": Picture(address=f"/compare?runs={first},{second}", height=980),
        "dashboard-experiment": Picture(address=f"/experiments/{experiment.id}", theme="dark"),
    }


def _write(page: Page, address: str, picture: Picture, path: Path) -> int:
    page.emulate_media(color_scheme="dark" if picture.theme == "dark" else "light")
    page.set_viewport_size({"width": picture.width, "height": picture.height})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(_SETTLED_MS)  # charts draw after their data came
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{path.name} has {size:,} bytes, more than {MAX_BYTES:,}.")
    return size


if __name__ == "__main__":
    main()
