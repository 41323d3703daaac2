"""Measure the dashboard in Chromium: sizes, first and second page, 100,000 samples, 10,000 runs.

Usage: python -m benchmarks.dashboard [--samples 100000] [--runs 10000] [--rounds 5]

A stack imports a file of answers as one run and copies a simulated run in its database; Debian's Chromium opens the
pages of that stack. Times are those of a reader: from the click, or the beginning of the navigation, until the content
is shown. They depend on the load of the machine, which is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from benchmarks.many_runs import copy_run, one_run
from benchmarks.run import all_ended, stack
from vlmhyperbench.cli.stack import page_link
from vlmhyperbench.client import Client
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.wire.answers import RunImport

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
KINDS = ("receipt", "invoice", "letter")
TIMEOUT_MS = 120_000
LONG_FRAME_MS = 50
_LOADED = "performance.getEntriesByType('resource').map(entry => entry.name)"
_SCROLL = """
async pixels => {
  const list = document.querySelector('.samples');
  const frames = [];
  let last = performance.now();
  for (let no = 0; no < 600; no += 1) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    last = now;
    list.scrollTop += pixels;
  }
  return frames;
}
"""
_FETCH = """
async ([path, rounds]) => {
  const times = [];
  for (let no = 0; no < rounds; no += 1) {
    const begun = performance.now();
    const response = await fetch(path, {headers: {Accept: 'application/json'}, cache: 'no-store'});
    await response.json();
    times.push(performance.now() - begun);
  }
  return times;
}
"""


def main() -> None:
    """Fill a stack, open its pages, and print each figure with its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    title = f"The dashboard, {given.samples:,} samples, {given.runs:,} runs, load {os.getloadavg()[0]:.1f}"
    table = Table("figure", "measured", "aim", title=title)
    with stack() as (home, client):
        imported = _imported(client, given.samples)
        copy_run(home, one_run(client, samples=20), runs=given.runs, rows=0)
        with _browser(str(page_link(home))) as page:
            url = str(home.api_url())
            _sizes(table, page, url)
            _pages(table, page, url, given.rounds)
            _samples(table, page, f"{url}/runs/{imported}", given.rounds)
            _runs(table, page, given.rounds)
    table.caption = f"load at the end {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    Console(width=110).print(table)


@contextmanager
def _browser(link: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(link)
        page.get_by_role("heading", name="Devices").wait_for()
        yield page
        browser.close()


def _imported(client: Client, samples: int) -> UUID:
    """Return a run of so many answers, of which one of ten is wrong."""
    answers = (
        ImportedAnswer(
            key=f"sample-{number}",
            question=f"What is the total of document {number}?",
            references=(f"{number}.50",),
            text=f"{number}.50" if number % 10 else "unreadable",
            metadata={"doc_class": KINDS[number % 3]},
        )
        for number in range(samples)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        file_of = AnswersFile(answers=answers, format="lm-eval", tool=None, model="imported", task=None, decoding={})
        write_answers(path, file_of)
        file = client.upload_answers(path.read_bytes())
    run = client.runs.import_(RunImport(answers=file.sha256, metrics=("exact_match",)))
    return all_ended(client, [run.id])[0].id


def _sizes(table: Table, page: Page, url: str) -> None:
    """Add up what the first page has loaded, as compressed by gzip."""
    page.goto(url)
    page.get_by_role("heading", name="Devices").wait_for()
    assets = Path(str(files("vlmhyperbench_api"))) / "static" / "assets"
    names = {Path(urlsplit(address).path).name for address in page.evaluate(_LOADED) if "/assets/" in address}
    shell = [assets / f"{name}.gz" for name in names if name.endswith((".js", ".css"))]
    table.add_row("shell and first page, gzip", _kilobytes(shell), "≤ 280 KB (shell)")
    table.add_row("charts, gzip, loaded with the first one", _kilobytes(assets.glob("plotly*.js.gz")), "≤ 420 KB")


def _kilobytes(paths: Iterable[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1024:.0f} KB"


def _pages(table: Table, page: Page, url: str, rounds: int) -> None:
    first, second = [], []
    for _ in range(rounds):
        page.goto(url)
        page.get_by_role("heading", name="Devices").wait_for()
        first.append(page.evaluate("performance.now()"))
        second.append(_timed(lambda: _go(page, "Runs", "Runs")))
    table.add_row("first page usable, median", _ms(statistics.median(first)), "≤ 1.5 s")
    table.add_row("second page, median", _ms(statistics.median(second)), "≤ 300 ms")


def _samples(table: Table, page: Page, address: str, rounds: int) -> None:
    rows = page.get_by_role("region", name="Samples").get_by_role("listitem")
    opened, filtered = [], []
    for _ in range(rounds):
        page.goto(address)
        page.get_by_role("tab", name="Samples").wait_for()
        opened.append(_timed(lambda: _open_samples(page)))
        page.wait_for_load_state("networkidle")
        page.get_by_role("combobox", name="Right or wrong").click()
        filtered.append(_timed(lambda: _filter(page)))
    table.add_row("samples: first list opens", _ms(opened[0]), "≤ 1 s")
    table.add_row("samples: list opens, median", _ms(statistics.median(opened)), "≤ 1 s")
    table.add_row("samples: a filter answers, median", _ms(statistics.median(filtered)), "≤ 500 ms")
    page.goto(f"{address}?tab=samples")
    rows.first.wait_for()
    page.wait_for_load_state("networkidle")
    frames = page.evaluate(_SCROLL, 200)
    long = sum(frame > LONG_FRAME_MS for frame in frames)
    table.add_row(f"samples: frames above {LONG_FRAME_MS} ms of {len(frames)} while scrolling", str(long), "0")
    table.add_row("samples: longest frame", _ms(max(frames)), f"≤ {LONG_FRAME_MS} ms")


def _open_samples(page: Page) -> None:
    page.get_by_role("tab", name="Samples").click()
    page.get_by_role("region", name="Samples").get_by_role("listitem").first.wait_for()


def _filter(page: Page) -> None:
    page.get_by_role("option", name="Wrong").click()
    page.get_by_text("that pass the filters").wait_for()


def _runs(table: Table, page: Page, rounds: int) -> None:
    opened = []
    for _ in range(4 * rounds):
        _go(page, "Reports", "Reports")
        opened.append(_timed(lambda: _go(page, "Runs", "Runs")))
    table.add_row("runs: page opens, p95", _ms(_p95(opened)), "≤ 300 ms")
    for name, query in (("page", ""), ("filter", "?where=metrics.exact_match>=0.9&order=-metrics.exact_match")):
        times = page.evaluate(_FETCH, [f"/api/v1/runs/rows{query}", 20 * rounds])
        table.add_row(f"runs: {name} of rows, p95", _ms(_p95(times)), "≤ 300 ms")


def _go(page: Page, link: str, heading: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=link, exact=True).click()
    page.get_by_role("heading", name=heading, level=1, exact=True).wait_for()
    page.get_by_role("row").nth(1).wait_for()


def _timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1000


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


def _ms(value: float) -> str:
    return f"{value:.0f} ms"


if __name__ == "__main__":
    main()
