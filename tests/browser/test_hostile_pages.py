"""Pages whose run was deleted, whose report is gone, or whose link was used, in a real Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import check_page
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.cli.stack import page_link
from vlmhyperbench.db import retention
from vlmhyperbench.db.engine import Database


@pytest.fixture
def page(browser: Browser, session: Path) -> Iterator[Page]:
    context = browser.new_context(storage_state=session, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    yield page
    context.close()


def _delete(stack: Stack, run_id: UUID) -> None:
    """Delete a run as the retention policy does; Playwright's loop runs in this thread."""

    async def delete() -> None:
        database = Database(stack.setting("database_url"))
        async with database.transaction() as session:
            await retention.delete_run(session, run_id)
        await database.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, delete()).result()


def test_a_run_that_is_deleted_while_it_is_open_is_shown_as_deleted(page: Page, stack: Stack) -> None:
    run = stack.wait(stack.client.runs.create("simulated-instant", name="short-lived").id)
    page.goto(f"{stack.home.api_url()}/runs/{run.id}")
    expect(page.get_by_role("heading", name="short-lived")).to_be_visible()
    _delete(stack, run.id)
    page.get_by_role("button", name="Rerun").click()
    expect(page.get_by_role("alert").filter(has_text="deleted")).to_be_visible()
    expect(page.get_by_role("heading", name="short-lived")).to_be_visible()
    check_page(page)
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text(str(run.id))
    check_page(page)


def test_a_report_whose_files_are_gone_is_explained_wherever_it_is_asked_for(page: Page, stack: Stack) -> None:
    run = stack.wait(stack.client.runs.create("simulated-instant", name="lost").id)
    stored = "SELECT DISTINCT storage_key FROM artifact WHERE run_id = %s AND kind IN ('report', 'summary')"
    for (key,) in stack.query(stored, run.id):
        (stack.home.storage / key).unlink()
    base = stack.home.api_url()
    page.goto(f"{base}/runs/{run.id}")
    expect(page.get_by_text("The report of this run is missing")).to_be_visible()
    expect(page.get_by_text(f"vlmhyperbench report {str(run.id)[:8]}")).to_be_visible()
    check_page(page)
    answer = page.goto(f"{base}/reports/{run.id}")
    assert answer is not None
    assert answer.status >= 400
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_a_link_that_was_used_and_one_that_is_rubbish_say_how_to_get_another(browser: Browser, stack: Stack) -> None:
    link = str(page_link(stack.home))
    used = browser.new_context()
    used.new_page().goto(link)
    used.close()
    for address in (link, link[:-4], f"{stack.home.api_url()}/sign-in?ticket=x"):
        context = browser.new_context()
        page = context.new_page()
        answer = page.goto(address)
        assert answer is not None
        assert answer.status in {401, 404}, address
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("body")).to_contain_text("vlmhyperbench")
        context.close()
