"""A real Chromium: Debian's, driven by Playwright; where there is none the tests are skipped, but never in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack
from vlmhyperbench.cli.stack import page_link

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start one for a module: while Playwright is open no asynchronous test can run in the same process."""
    path = shutil.which("chromium")
    if path is None:
        assert not os.environ.get("VLMHB_NEED_BROWSER"), "CI needs chromium."
        pytest.skip("There is no chromium: apt-get install --no-install-recommends chromium")
    expect.set_options(timeout=PATIENCE_S * 1000)  # a busy machine is slow, not wrong
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS), timeout=PATIENCE_S * 1000)
        expect.set_options(timeout=PATIENCE_S * 1000)  # by default five seconds, which a busy machine exceeds
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def session(browser: Browser, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sign in once, and return the stored session."""
    link = page_link(stack.home)
    assert link is not None
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    expect(page.get_by_role("heading", name="Devices")).to_be_visible(timeout=PATIENCE_S * 1000)
    path = tmp_path_factory.mktemp("session") / "state.json"
    context.storage_state(path=path)
    context.close()
    return path
