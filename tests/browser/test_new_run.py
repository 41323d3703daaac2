"""A run made by the form: planned, submitted, watched to its end, repeated with changes, and written as YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.checks import check_page
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack


@pytest.fixture
def page(browser: Browser, stack: Stack, session: Path) -> Iterator[Page]:
    """Open the form; a page that throws fails the test."""
    context = browser.new_context(storage_state=session, reduced_motion="reduce", base_url=str(stack.home.api_url()))
    page, thrown = context.new_page(), list[str]()
    page.on("pageerror", lambda error: thrown.append(str(error)))
    page.set_default_timeout(PATIENCE_S * 1000)
    expect.set_options(timeout=PATIENCE_S * 1000)
    page.goto("/runs/new")
    expect(page.get_by_role("heading", name="New run")).to_be_visible()
    yield page
    context.close()
    assert not thrown


def _input(page: Page, label: str) -> Locator:
    return page.get_by_role("textbox", name=re.compile(f"^{label}( \\*)?$")).or_(
        page.get_by_role("combobox", name=re.compile(f"^{label}( \\*)?$"))
    )


def _plan(page: Page) -> Locator:
    return page.get_by_role("region", name="Plan", exact=True)


def test_a_run_made_by_the_form_is_planned_submitted_and_watched_to_its_end(page: Page, stack: Stack) -> None:
    expect(_plan(page)).to_contain_text("Choose a target and a task")
    expect(page.get_by_role("button", name="Start the run")).to_be_disabled()
    _input(page, "Model").fill("instant")
    page.get_by_role("option", name="simulated-instant").click()
    _input(page, "Task").fill("document-qa")
    _input(page, "Limit").fill("5")
    expect(_plan(page)).to_contain_text("5 answers")
    expect(_plan(page).get_by_role("region", name="Memory", exact=True)).to_contain_text("fits")
    expect(page.get_by_role("region", name="run.yaml", exact=True)).to_contain_text("model: simulated-instant")
    expect(page.get_by_role("region", name="Command line", exact=True)).to_contain_text(
        "vlmhyperbench run --model simulated-instant --task document-qa --limit 5"
    )
    check_page(page)
    page.reload()
    expect(_input(page, "Limit")).to_have_value("5")
    before = {run.id for run in stack.client.runs.list().items}
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("heading", name="simulated-instant, document-qa")).to_be_visible()
    expect(page.get_by_text("Succeeded").first).to_be_visible()
    [made] = [run for run in stack.client.runs.list().items if run.id not in before]
    assert page.url.endswith(f"/runs/{made.id}")
    assert (made.total, made.done) == (5, 5)

    page.get_by_role("link", name="Run again with changes").click()
    expect(_input(page, "Limit")).to_have_value("5")
    expect(_plan(page)).to_contain_text("its dataset was read before")
    _input(page, "Limit").fill("3")
    _input(page, "Name").fill("<b>again</b> שלום")
    expect(_plan(page)).to_contain_text("3 answers")
    expect(_plan(page)).to_contain_text("at the pace of earlier runs")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("heading", name="<b>again</b> שלום")).to_be_visible()
    again = next(run for run in stack.client.runs.list().items if run.name == "<b>again</b> שלום")
    assert stack.client.runs.get(again.id).spec.dataset.limit == 3


def test_what_is_wrong_is_shown_at_its_field_with_the_nearest_name(page: Page) -> None:
    page.goto("/runs/new?model=simulated-instnat&task=document-qa")
    expect(_input(page, "Model")).to_have_attribute("aria-invalid", "true")
    expect(_plan(page)).to_contain_text("simulated-instant")
    check_page(page)
    _input(page, "Model").fill("simulated-instant")
    for limit in ("0", "many"):
        _input(page, "Limit").fill(limit)
        expect(_input(page, "Limit")).to_have_attribute("aria-invalid", "true")
        page.get_by_role("button", name="Start the run").click()
        expect(page.get_by_role("heading", name="New run")).to_be_visible()
    _input(page, "Limit").fill("1000000000000")
    expect(_plan(page)).to_contain_text("≤ 1")
    page.locator("label", has_text="Endpoint").click()
    _input(page, "Endpoint").fill("http://10.0.0.8:8000/v1")
    _input(page, "Model name").fill("org/<i>name</i>")
    expect(_plan(page)).to_contain_text("10.0.0.8 leads to 10.0.0.8, which is not public")


def test_pasted_yaml_is_read_and_checked_by_the_api(page: Page) -> None:
    page.locator("label", has_text="YAML").click()
    area = page.get_by_role("textbox", name="YAML of the run")
    area.fill("a: &a {model: simulated-instant}\ntarget: *a\ntask: document-qa\n")
    wrong = page.get_by_role("list", name="What is wrong in the YAML")
    expect(wrong).to_contain_text("line 2")
    area.fill("target: {model: simulated-instant}\ntask: document-qa\nlimit: 0\n")
    expect(wrong).to_contain_text("line 3")
    check_page(page)
    area.fill("a" * 1_000_000)
    expect(wrong).to_contain_text("yaml")
    area.fill("target: {model: simulated-instant}\ntask: document-qa\nlimit: 4\ndescription: 'שלום <b>'\n")
    expect(wrong).to_have_count(0)
    expect(_plan(page)).to_contain_text("4 answers")
    page.locator("label", has_text="Form").click()
    expect(_input(page, "Limit")).to_have_value("4")
    expect(page.get_by_role("region", name="run.yaml", exact=True)).to_contain_text('description: "שלום <b>"')
