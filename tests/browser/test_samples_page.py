"""Samples in a real Chromium: one browsed to its next flip, long and strange answers, an image that is gone, logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import polars
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import check_page
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.cli.stack import page_link
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.results import Result

TASK = "document-qa"
DATASET = {"name": "synthetic-documents", "limit": 8}
LONG = "".join(f"<b>line {number}</b>\n" for number in range(50_000))
"""An answer of about a megabyte, of markup that must stay text."""
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd <i>\U0001f600</i>"


@dataclass(frozen=True)
class Browsed:
    """A measured run, and two imported ones of its samples: all right, and with three wrong answers and an error."""

    url: str
    session: Path
    stack: Stack
    measured: UUID
    right: UUID
    worse: UUID
    samples: list[Result]


@pytest.fixture(scope="module")
def browsed(browser: Browser, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Browsed:
    folder = tmp_path_factory.mktemp("browsed")
    run = stack.client.runs.create(run={"target": {"model": "simulated-instant"}, "task": TASK, "dataset": DATASET})
    samples = stack.client.results(run_id=stack.wait(run.id).id, limit=50).items
    texts: list[str | None] = [sample.references[0] for sample in samples]
    right = _imported(stack, folder, samples, texts, "all right")
    texts[2], texts[4], texts[5], texts[6] = f"{texts[2]} x", LONG, RIGHT_TO_LEFT, None
    worse = _imported(stack, folder, samples, texts, "worse <b>run</b>")
    session = folder / "state.json"
    context = browser.new_context()
    page = context.new_page()
    page.goto(str(page_link(stack.home)))
    expect(page.get_by_role("heading", name="Devices")).to_be_visible(timeout=PATIENCE_S * 1000)
    context.storage_state(path=session)
    context.close()
    return Browsed(str(stack.home.api_url()), session, stack, run.id, right, worse, list(samples))


@pytest.fixture
def page(browser: Browser, browsed: Browsed) -> Iterator[Page]:
    context = browser.new_context(storage_state=browsed.session, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    yield page
    context.close()


def _imported(stack: Stack, folder: Path, samples: list[Result], texts: list[str | None], name: str) -> UUID:
    answers = (
        ImportedAnswer(key=str(sample.key), text=text)
        if text is not None
        else ImportedAnswer(key=str(sample.key), error="timed out")
        for sample, text in zip(samples, texts, strict=True)
    )
    path = folder / "answers.jsonl"
    write_answers(path, AnswersFile(answers=answers, format="lm-eval", tool=None, model=name, task=None, decoding={}))
    file = stack.client.upload_answers(path.read_bytes())
    choices = RunImport.model_validate({"answers": file.sha256, "task": TASK, "dataset": DATASET, "name": name})
    return UUID(str(stack.wait(stack.client.runs.import_(choices).id).id))


def test_a_sample_is_browsed_to_its_next_flip(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.worse}?tab=samples&against={browsed.right}")
    rows = page.get_by_role("region", name="Samples", exact=True).get_by_role("listitem")
    expect(rows).to_have_count(8)
    expect(rows.nth(2)).to_contain_text("broke")
    page.keyboard.press("j")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(browsed.samples[0].key))
    page.keyboard.press("f")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(browsed.samples[2].key))
    expect(page.get_by_text("✕ broke")).to_be_visible()
    expect(page.get_by_role("region", name="Answer of the baseline")).to_contain_text(browsed.samples[2].references[0])
    expect(page.get_by_role("region", name="Metrics", exact=True).locator("ins").first).to_have_text(" x")
    expect(page.get_by_role("img", name="Image 1 of")).to_be_visible()
    assert f"against={browsed.right}" in page.url
    page.keyboard.press("k")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(browsed.samples[1].key))
    page.keyboard.press("n")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(browsed.samples[6].key))
    expect(page.get_by_role("region", name="Error", exact=True)).to_contain_text("timed out")
    page.get_by_role("link", name="Samples of").click()
    expect(rows).to_have_count(8)


def test_filters_are_in_the_address_and_lead_to_their_own_neighbours(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.worse}?tab=samples")
    page.get_by_role("combobox", name="Right or wrong").click()
    page.get_by_role("option", name="Wrong").click()
    rows = page.get_by_role("region", name="Samples", exact=True).get_by_role("listitem")
    expect(rows).to_have_count(3)
    assert "is_wrong" in page.url
    page.reload()
    expect(rows).to_have_count(3)
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(str(browsed.samples[2].key))
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(browsed.samples[4].key))
    page.goto(f"{browsed.url}/runs/{browsed.worse}?tab=samples&where=nothing%3D1")
    expect(page.get_by_role("alert")).to_contain_text("nothing")


def test_groups_and_searched_values_are_in_the_address(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.right}")
    card = page.get_by_role("region", name="Exact match", exact=True)
    card.get_by_role("radiogroup").get_by_text("field").click()
    expect(card.get_by_role("columnheader", name="field")).to_be_visible()
    page.reload()
    expect(card.get_by_role("columnheader", name="field")).to_be_visible()
    assert "by=field" in page.url
    page.goto(f"{browsed.url}/runs/{browsed.measured}?tab=configuration")
    values = page.get_by_role("region", name="Configuration", exact=True).get_by_role("row")
    page.get_by_label("Filter: Configuration").press_sequentially("decoding.temperature")
    expect(values).to_have_count(2)
    page.reload()
    expect(values).to_have_count(2)


def test_a_megabyte_of_markup_is_cut_and_shown_whole_as_text(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.worse}/samples/1.4")
    answer = page.get_by_role("region", name="Answer", exact=True)
    expect(answer).to_contain_text("<b>line 0</b>")
    assert len(answer.inner_text()) < 20_000
    answer.get_by_role("button", name="Show all").click()
    expect(answer.get_by_text("<b>line 49999</b>")).to_have_count(1)
    assert answer.locator("b").count() == 0
    page.goto(f"{browsed.url}/runs/{browsed.worse}/samples/1.5")
    expect(answer).to_contain_text(RIGHT_TO_LEFT)


def test_an_unknown_sample_and_an_image_that_is_gone_are_explained(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.worse}/samples/1.999")
    expect(page.get_by_role("heading", level=1)).to_contain_text("1.999")
    page.goto(f"{browsed.url}/runs/{uuid4()}")
    expect(page.get_by_role("alert").get_by_role("heading", level=1)).to_be_visible()
    page.route("**/images/*", lambda route: route.fulfill(status=404, json={}))
    page.goto(f"{browsed.url}/runs/{browsed.worse}/samples/1.1")
    expect(page.get_by_role("alert")).to_contain_text("cannot be read")
    expect(page.get_by_role("region", name="Answer", exact=True)).to_contain_text(browsed.samples[1].references[0])


def test_a_measured_sample_has_its_prompt_and_its_times(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.measured}/samples/1.0")
    expect(page.get_by_role("region", name="Prompt", exact=True)).to_contain_text(str(browsed.samples[0].question))
    expect(page.get_by_role("region", name="Timing", exact=True)).to_contain_text("Sent to first token")
    expect(page.get_by_text(" boxes")).to_be_visible()
    page.get_by_role("button", name="Zoom in").click()
    expect(page.get_by_role("region", name="Image 1")).to_contain_text("140")


def test_a_line_of_a_log_has_an_address_and_resources_a_table(browsed: Browsed, page: Page) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.measured}?tab=logs")
    page.get_by_role("combobox", name="Which log").click()
    page.get_by_role("option", name="worker of claim").click()
    lines = page.get_by_role("region", name="Lines", exact=True)
    expect(lines).to_contain_text("target.ready")
    page.get_by_role("button", name="Line 1", exact=True).click()
    expect(lines.locator("[aria-current]")).to_have_count(1)
    address = page.url
    assert "line=1" in address
    page.goto(f"{browsed.url}/runs/{browsed.measured}?tab=resources")
    expect(page.get_by_role("region", name="Table of claims and phases")).to_contain_text("generate")
    page.goto(address)
    expect(lines.locator("[aria-current]")).to_contain_text("target.ready")


def test_an_export_is_asked_for_followed_and_downloaded(browsed: Browsed, page: Page, tmp_path: Path) -> None:
    page.goto(f"{browsed.url}/runs/{browsed.measured}")
    page.get_by_role("button", name="Export…").click()
    dialog = page.get_by_role("dialog", name="Export")
    page.get_by_role("button", name="Export the run").click()
    with page.expect_download() as downloading:
        dialog.get_by_role("link", name="Download").first.click()
    file = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(file)
    assert file.suffix == ".parquet"
    assert polars.read_parquet(file).height == len(browsed.samples)
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        check_page(page)
