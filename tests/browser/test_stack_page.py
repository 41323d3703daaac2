"""The stack's page in a browser: nothing overflows at any width, in both themes, under its own policy."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Route

from tests.support.builders import shown_run
from vlmhyperbench.bus import Progress
from vlmhyperbench.wire.runs import Run
from vlmhyperbench_api.overview import Overview, RunLine, overview_page, page_policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = UUID("00000000-0000-4000-8000-000000000001")
ADDRESS = "http://stack.test/"


def _run(name: str, **changes: object) -> Run:
    running: dict[str, object] = {
        "id": ID,
        "name": name,
        "state": "RUNNING",
        "target": "a-model-with-a-very-long-name" * 4,
        "total": 1_000_000,
        "done": 250_000,
        "failed": 12,
        "started_at": NOW,
        "finished_at": None,
    }
    return Run.model_validate(shown_run(**{**running, **changes}))


PAGE = overview_page(
    Overview(
        experiments=(),
        runs=[
            RunLine(run=_run("W" * 150), progress=Progress(run_id=ID, stage="inference", done=1, total=4, at=NOW)),
            RunLine(
                run=_run(
                    "done",
                    state="SUCCEEDED",
                    headline={
                        "scores": [{"metric": m, "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 3} for m in "ab"]
                    },
                )
            ),
            RunLine(run=_run("failed", state="FAILED", reason="The engine said: " + "no" * 200)),
        ],
    )
)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_and_the_policy_allows_the_style(browser: Browser, width: int, theme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))

    def answer(route: Route) -> None:
        route.fulfill(body=PAGE, content_type="text/html", headers={"Content-Security-Policy": page_policy()})

    page.route(ADDRESS, answer)
    page.goto(ADDRESS)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(244, 245, 247)", "dark": "rgb(15, 19, 25)"}[theme]
    assert page.get_by_role("progressbar").first.get_attribute("value") == "0.250"
    assert page.get_by_role("link", name="done").get_attribute("href") == f"/reports/{ID}"
    assert not faults
    context.close()
