"""Figures of runs and comparisons as Plotly JSON, with alternative text and numbers."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from tests.api.conftest import Served
from tests.api.test_comparisons import BASELINE, BETTER, _evidence, _reported, project
from tests.support.builders import add_run
from vlmhyperbench.db import artifacts
from vlmhyperbench.reports.run_report import run_document
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.summaries.summarising import summarise_run

__all__ = ["project"]

pytestmark = pytest.mark.anyio


async def _with_report(api: Served, project: str) -> UUID:
    """Store a run with its report in JSON, as the reporter does."""
    run = _evidence("first", BASELINE)
    content = to_json(run_document(summarise_run(run), run))
    async with api.database.transaction() as session:
        view = await add_run(session, name=run.name, spec=run.spec, project_id=project)
        stored = api.storage.put(f"runs/{view.id}/reports/1/report.json", content)
        await artifacts.add(
            session,
            project_id=project,
            claim_id=uuid4(),
            kind="report",
            name="report.json",
            media_type="application/json",
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
            run_id=view.id,
        )
    return view.id


async def test_figures_of_a_run_have_alternative_text_numbers_and_plotly_json(api: Served, project: str) -> None:
    run_id = await _with_report(api, project)
    listed = (await api.http.get(f"/runs/{run_id}/figures")).json()["items"]
    assert listed
    assert all(item["alt"] and item["title"] for item in listed)
    for item in listed:
        answer = await api.http.get(f"/runs/{run_id}/figures/{item['name']}")
        figure = answer.json()
        assert set(figure["plotly"]) == {"data", "layout", "config"}
        assert all(len(row) == len(figure["table"]["columns"]) for row in figure["table"]["rows"])
    again = await api.http.get(str(answer.url), headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    missing = await api.http.get(f"/runs/{run_id}/figures/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_a_run_without_a_report_has_no_figures(api: Served, project: str) -> None:
    run_id = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()["id"]
    answer = await api.http.get(f"/runs/{run_id}/figures")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_report")
    other = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get(f"/runs/{run_id}/figures", headers=other)).status_code == 404


async def test_a_comparison_of_any_runs_has_figures(api: Served, project: str) -> None:
    first = await _reported(api, project, _evidence("first", BASELINE))
    second = await _reported(api, project, _evidence("second", BETTER))
    runs = {"runs": f"{first},{second}"}
    listed = (await api.http.get("/comparisons/figures", params=runs)).json()["items"]
    assert [item["name"] for item in listed] == ["differences-figure", "flip-matrix-0"]
    figure = (await api.http.get("/comparisons/figures/flip-matrix-0", params=runs)).json()
    assert figure["kind"] == "matrix"
    assert figure["plotly"]["data"]
