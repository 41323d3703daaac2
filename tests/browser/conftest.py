"""A real Chromium: Debian's, driven by Playwright; where there is none the tests are skipped, but never in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.processes import PATIENCE_S

_ARGUMENTS = (
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
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS), timeout=PATIENCE_S * 1000)
        expect.set_options(timeout=PATIENCE_S * 1000)  # by default five seconds, which a busy machine exceeds
        yield browser
        browser.close()
