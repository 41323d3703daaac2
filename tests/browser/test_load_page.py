"""A load made by the form of `/load` in a real Chromium, watched to its result, in front of a real stack."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import check_page
from tests.e2e.test_refusals import endpoint
from tests.refusals.server import ANSWERED
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.cli.stack import page_link

PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with endpoint(lambda _: ANSWERED) as served:
        yield served.url


@pytest.fixture
def page(browser: Browser, stack: Stack, tmp_path: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    link = page_link(stack.home)
    assert link is not None
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
    yield page
    context.close()


def test_a_load_is_started_watched_to_its_result_and_filled_in_again(page: Page, stack: Stack, server: str) -> None:
    base = str(stack.home.api_url())
    page.goto(f"{base}/load?mode=concurrency&concurrency=2&requests=12&prompt=5&output=4")
    start = page.get_by_role("button", name="Start the load")
    expect(start).to_be_disabled()
    page.get_by_label("Endpoint").fill(server)
    page.get_by_label("Model").fill("some-model")
    expect(page.get_by_label("Requests", exact=True)).to_have_value("12")
    page.get_by_text("As a command").click()
    expect(page.locator(".load-command")).to_contain_text("--scenario multi_stream --concurrency 2 --requests 12")
    check_page(page)
    start.click()
    expect(page.get_by_role("heading", name="load of some-model")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", name="Percentiles")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("of 12")).to_be_visible()
    expect(page.get_by_role("rowheader", name="Latency")).to_be_visible()
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        check_page(page)
    address = page.url
    page.get_by_role("link", name="Again").click()
    expect(page.get_by_label("Endpoint")).to_have_value(server)
    expect(page.get_by_role("textbox", name="In flight")).to_have_value("2")
    expect(page.get_by_role("link", name="load of some-model")).to_have_attribute("href", address.removeprefix(base))


def test_a_load_that_cannot_be_sent_is_refused_beside_the_form(page: Page, stack: Stack) -> None:
    page.goto(f"{stack.home.api_url()}/load?url=file%3A%2F%2F%2Fetc%2Fpasswd&model=m")
    page.get_by_role("button", name="Start the load").click()
    expect(page.get_by_role("alert")).to_contain_text("http", timeout=PATIENCE_MS)
    assert page.url.endswith("model=m")


def test_a_sweep_of_the_requests_in_flight_is_an_experiment_with_its_figure(
    page: Page, stack: Stack, server: str
) -> None:
    page.goto(f"{stack.home.api_url()}/load?mode=concurrency&requests=6&prompt=5&output=4")
    page.get_by_label("Endpoint").fill(server)
    page.get_by_label("Model").fill("swept")
    page.get_by_label("Sweep").fill("2, 3")
    page.get_by_text("As a command").click()
    expect(page.locator(".load-command")).to_contain_text("--sweep concurrency=2,3 --requests 6")
    page.get_by_role("button", name="Start 2 loads").click()
    expect(page.get_by_role("heading", name="concurrency of swept")).to_be_visible()
    for load in stack.client.loads.list().items:
        if load.model == "swept":
            stack.wait(load.id)
    page.reload()
    figure = page.get_by_role("region", name="Sweep")
    expect(figure.get_by_label("Sweep: across")).to_have_value("spec.scenario.in_flight")
    figure.get_by_text("Numbers").click()
    expect(figure.get_by_role("table").get_by_role("link")).to_have_count(2)
    check_page(page)


def test_what_only_the_command_line_can_do_is_a_command_that_runs(page: Page, stack: Stack, server: str) -> None:
    page.goto(f"{stack.home.api_url()}/load?mode=concurrency&concurrency=2&requests=4&prompt=5&output=4&repeats=2")
    page.get_by_label("Endpoint").fill(server)
    page.get_by_label("Model").fill("m")
    page.get_by_text("As a command").click()
    page.get_by_text("Two servers", exact=True).click()
    expect(page.get_by_text("Give the URL of the second server.")).to_be_visible()
    page.get_by_label("Second endpoint").fill(server)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        check_page(page)
    for name, kind in (("Two servers", "load_against"), ("Until precise", "load_repeats")):
        page.get_by_text(name, exact=True).click()
        command = page.locator(".load-command").inner_text()
        program, *arguments = shlex.split(command)
        argv = [Path(sys.executable).with_name(program), *arguments, "--json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert json.loads(done.stdout)["kind"] == kind, done.stderr


def test_a_trace_is_chosen_as_a_file_and_replayed(page: Page, stack: Stack, server: str, tmp_path: Path) -> None:
    wrong, trace = tmp_path / "wrong.jsonl", tmp_path / "trace.jsonl"
    wrong.write_text('{"timestamp_s": 0}\n{"time": 1}\n')
    trace.write_text("".join(f'{{"timestamp_s": {at}, "prompt_tokens": 4}}\n' for at in (10, 10.2, 10.5)))
    page.goto(f"{stack.home.api_url()}/load?mode=trace&model=traced")
    page.get_by_label("Endpoint").fill(server)
    chosen = page.locator("input[type=file]")
    chosen.set_input_files(wrong)
    expect(page.get_by_text("Line 2 is no object")).to_be_visible()
    check_page(page)
    chosen.set_input_files(trace)
    expect(page.get_by_text("3 requests", exact=True)).to_be_visible()
    page.get_by_role("button", name="Start the load").click()
    expect(page.get_by_text("a trace of 3 requests over 0.5 s")).to_be_visible()
    expect(page.get_by_text("of 3", exact=True)).to_be_visible()


def test_a_load_is_cancelled_by_its_page(page: Page, stack: Stack, server: str) -> None:
    load = stack.client.loads.start({"url": server, "model": "m", "rate_per_s": 0.1, "duration_s": 600})
    page.goto(f"{stack.home.api_url()}/load/{load.id}")
    page.get_by_role("button", name="Cancel").click()
    stack.wait(load.id)
    expect(page.get_by_text("cancelled", exact=False).first).to_be_visible(timeout=PATIENCE_MS)
    assert stack.client.loads.get(load.id).state == "CANCELLED"
