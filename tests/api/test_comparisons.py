"""Runs compared with a baseline, ranked, and as points over all runs, by the API."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

from tests.api.conftest import Served
from tests.shared.reports.builders import evidence, fact, samples_of
from tests.support.builders import add_run
from vlmhyperbench.db import artifacts, listings
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import RunRow
from vlmhyperbench.reports.comparing import compare, rows
from vlmhyperbench.reports.samples import read_samples
from vlmhyperbench.summaries.columns import columns_of
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_api.comparisons import MAX_RANKED
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch

pytestmark = pytest.mark.anyio

BASELINE = ["yes", "yes", "yes", "no", "yez", None]
BETTER = ["yes", "yes", "no", "yes", "yes", "yes"]


def _evidence(name: str, answers: Sequence[str | None]) -> RunEvidence:
    found = [fact(i, answer, "yes", images=[f"{i:064x}"]) for i, answer in enumerate(answers)]
    return evidence(found, name=name, metrics=(ExactMatch(), Cer()))


@pytest.fixture
async def project(api: Served) -> str:
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def _reported(api: Served, project: str, run: RunEvidence) -> UUID:
    """Store a run that succeeded with its samples file, as the reporter does."""
    spec = run.spec.model_copy(update={"target": run.spec.target.model_copy(update={"model": run.name})})
    async with api.database.transaction() as session:
        view = await add_run(session, name=run.name, spec=spec, project_id=project)
        stored = api.storage.put(f"runs/{view.id}/reports/1/samples.parquet", samples_of(run))
        await artifacts.add(
            session,
            project_id=project,
            claim_id=uuid4(),
            kind="table",
            name="samples.parquet",
            media_type="application/vnd.apache.parquet",
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
            run_id=view.id,
        )
        await listings.set_columns(session, view.id, columns_of(summarise_run(run)))
        table = table_of(RunRow)
        await session.execute(update(table).where(table.c.id == view.id).values(state="SUCCEEDED"))
    return view.id


async def test_a_comparison_has_the_numbers_of_the_command_line(api: Served, project: str) -> None:
    first, second = _evidence("first", BASELINE), _evidence("second", BETTER)
    ids = [await _reported(api, project, run) for run in (first, second)]
    response = await api.http.get("/comparisons", params={"runs": ",".join(map(str, ids))})
    compared = response.json()
    (other,) = compared["others"]
    expected: dict[str, Any] = rows(compare(*(read_samples(samples_of(run), what=run.name) for run in (first, second))))
    assert {delta["metric"]: delta["difference"] for delta in other["metrics"]} == {
        key: delta["difference"] for key, delta in expected["metrics"].items()
    }
    assert {delta["metric"]: (delta["p_adjusted"], delta["low"]) for delta in other["metrics"]} == {
        key: (delta["p_adjusted"], delta["low"]) for key, delta in expected["metrics"].items()
    }
    assert other["flips"] == {"both_right": 2, "broke": 1, "mended": 2, "both_wrong": 0}
    assert (compared["baseline"]["name"], other["run"]["name"]) == ("first", "second")
    assert [difference["path"] for difference in other["configuration"]] == ["target.model"]
    assert (other["is_paired"], other["is_same_samples"], other["is_gate_met"]) == (True, True, None)


async def test_a_gate_is_checked_against_each_run(api: Served, project: str) -> None:
    ids = [await _reported(api, project, _evidence(name, BASELINE)) for name in ("first", "second")]
    rules = [{"metric": "exact_match", "min_value": 0.9}]
    body = {"runs": [str(run_id) for run_id in ids], "gate": {"rules": rules}}
    (other,) = (await api.http.post("/comparisons", json=body)).json()["others"]
    assert (other["is_gate_met"], [check["status"] for check in other["checks"]]) == (False, ["failed"])


async def test_a_gate_may_be_yaml_whose_errors_have_lines(api: Served, project: str) -> None:
    ids = [str(await _reported(api, project, _evidence(name, BASELINE))) for name in ("first", "second")]
    text = "rules:\n- metric: exact_match\n  max_drop: 1\n"
    (other,) = (await api.http.post("/comparisons", json={"runs": ids, "gate_yaml": text})).json()["others"]
    assert (other["is_gate_met"], [check["status"] for check in other["checks"]]) == (True, ["passed"])
    wrong = await api.http.post("/comparisons", json={"runs": ids, "gate_yaml": text + "  max_dorp: 1\n"})
    (item,) = wrong.json()["errors"]
    assert (wrong.status_code, item["line"], bool(item["cure"])) == (422, 4, True)
    both = {"runs": ids, "gate_yaml": text, "gate": {"rules": [{"metric": "exact_match", "max_drop": 1}]}}
    assert (await api.http.post("/comparisons", json=both)).status_code == 422


async def test_runs_that_cannot_be_compared_are_refused(api: Served, project: str) -> None:
    run_id = await _reported(api, project, _evidence("one", BASELINE))
    async with api.database.transaction() as session:
        waiting = (await add_run(session, project_id=project)).id
        stranger = (await add_run(session, project_id="other")).id
    for ids, status in (([run_id], 422), ([run_id, waiting], 409), ([run_id, stranger], 404), ([run_id, uuid4()], 404)):
        response = await api.http.get("/comparisons", params={"runs": ",".join(map(str, ids))})
        assert (response.status_code, bool(response.json()["cure"])) == (status, True)


def _lossy(run: RunEvidence) -> RunEvidence:
    limits = run.spec.limits.model_copy(update={"allow_lossy": True})
    return replace(run, spec=run.spec.model_copy(update={"limits": limits}))


async def test_a_leaderboard_ranks_the_newest_run_of_each_target_with_intervals(api: Served, project: str) -> None:
    await _reported(api, project, _evidence("good", BASELINE))
    for name, answers in (("poor", ["no"] * 6), ("good", BETTER)):
        await _reported(api, project, _evidence(name, answers))
    task = _evidence("good", BETTER).spec.task
    await _reported(api, project, _lossy(_evidence("lossy", BETTER)))
    board = (await api.http.get("/leaderboard", params={"task": task})).json()
    assert (board["metric"], board["direction"], sorted(board["metrics"])) == (
        "exact_match", "higher", ["cer", "exact_match"],
    )  # fmt: skip
    assert [(entry["name"], entry["rank"], entry["n"]) for entry in board["entries"]] == [
        ("good", 1, 6),
        ("poor", 2, 6),
    ]
    assert [(entry["rank_low"], entry["rank_high"]) for entry in board["entries"]] == [(1, 1), (2, 2)]
    assert board["ranked_on"] == 6
    assert board["entries"][0]["value"] == pytest.approx(5 / 6)
    lower = (await api.http.get("/leaderboard", params={"task": task, "metric": "cer"})).json()
    assert (lower["direction"], lower["entries"][0]["name"]) == ("lower", "good")
    assert (await api.http.get("/leaderboard", params={"task": "nothing"})).status_code == 404
    assert (await api.http.get("/leaderboard", params={"task": task, "metric": "x"})).status_code == 422


async def _listed(api: Served, project: str, name: str, **columns: Any) -> None:
    """Add a run that succeeded with these columns, without stored scores."""
    spec = _evidence(name, BETTER).spec
    spec = spec.model_copy(update={"target": spec.target.model_copy(update={"model": name})})
    async with api.database.transaction() as session:
        run = await add_run(session, name=name, spec=spec, project_id=project)
        await listings.set_columns(session, run.id, columns)
        table = table_of(RunRow)
        await session.execute(update(table).where(table.c.id == run.id).values(state="SUCCEEDED"))


def _scored(metric: str, value: float | None) -> dict[str, Any]:
    given = {} if value is None else {f"metrics.{metric}": value}
    return {f"metrics.{metric}.n_scored": 6, f"metrics.{metric}.direction": "higher", **given}


async def test_a_leaderboard_ranks_by_another_metric_where_none_has_the_primary_one(api: Served, project: str) -> None:
    await _listed(api, project, "plain", **_scored("anls", 0.5))
    await _listed(api, project, "empty", metric="judged", **_scored("judged", None), **_scored("anls", 0.4))
    await _listed(api, project, "newest", metric="judged", **_scored("judged", None))
    params = {"task": _evidence("plain", BETTER).spec.task}
    board = (await api.http.get("/leaderboard", params=params)).json()
    assert (board["metric"], board["metrics"]) == ("anls", ["anls"])
    assert [entry["name"] for entry in board["entries"]] == ["plain", "empty"]
    assert "newest" in board["note"]
    assert (await api.http.get("/leaderboard", params={**params, "metric": "judged"})).status_code == 422


async def test_a_leaderboard_keeps_the_best_targets_and_says_how_many_there_are(api: Served, project: str) -> None:
    for number in range(MAX_RANKED + 1):
        await _listed(api, project, f"target-{number}", metric="anls", **_scored("anls", 1 - number / 100))
    await _listed(api, project, "target-1", metric="anls", **_scored("anls", 0.0))
    params = {"task": _evidence("best", BETTER).spec.task}
    board = (await api.http.get("/leaderboard", params=params)).json()
    names = [entry["name"] for entry in board["entries"]]
    assert names == ["target-0", *(f"target-{number}" for number in range(2, MAX_RANKED + 1))]
    assert f"{MAX_RANKED} of {MAX_RANKED + 1}" in board["note"]


async def test_the_newest_run_of_each_target_is_read_however_old_it_is(api: Served, project: str) -> None:
    for name in ("oldest", "often", "often", "often"):
        await _listed(api, project, name)
    query = listings.Query(project_id=project)
    async with api.database.transaction() as session:
        both = await listings.newest_of_targets(session, query, limit=2)
        newest = await listings.newest_of_targets(session, query, limit=1)
    assert [[listed.run.name for listed in found] for found in (both, newest)] == [["often", "oldest"], ["often"]]


async def test_points_have_two_columns_over_all_runs(api: Served, project: str) -> None:
    run_id = await _reported(api, project, _evidence("good", BETTER))
    async with api.database.transaction() as session:
        await add_run(session, project_id=project)
    params = {"columns": "metrics.exact_match, latency_p50_ms", "where": "state=SUCCEEDED"}
    points = (await api.http.get("/points", params=params)).json()
    (point,) = points["points"]
    assert (point["id"], point["values"][0], points["is_cut"]) == (str(run_id), pytest.approx(5 / 6), False)
    assert point["is_best"] is None
    assert (await api.http.get("/points", params={"columns": "name"})).status_code == 422
    assert (await api.http.get("/points", params={"columns": ""})).status_code == 422


async def test_the_pareto_front_is_marked_by_the_goals(api: Served, project: str) -> None:
    columns = "metrics.exact_match,metrics.cer"
    for name, answers in (("good", BETTER), ("middle", BASELINE), ("poor", ["no"] * 6)):
        await _reported(api, project, _evidence(name, answers))
    async with api.database.transaction() as session:
        bare = await add_run(session, project_id=project, name="bare")
        await listings.set_columns(session, bare.id, {"metrics.cer": 0.0})

    async def best(goals: str) -> dict[str, bool | None]:
        points = (await api.http.get("/points", params={"columns": columns, "goals": goals})).json()["points"]
        return {point["name"]: point["is_best"] for point in points}

    assert await best("higher,lower") == {"bare": None, "poor": False, "middle": False, "good": True}
    assert await best("lower,lower") == {"bare": None, "poor": True, "middle": True, "good": True}
    assert await best("lower") == {"bare": None, "poor": True, "middle": False, "good": False}
    for goals in ("best", "higher,lower,lower"):
        response = await api.http.get("/points", params={"columns": columns, "goals": goals})
        assert (response.status_code, bool(response.json()["cure"])) == (422, True)


WITHOUT_SCIPY = """
import sys
from pathlib import Path

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("scipy", "matplotlib"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
from vlmhyperbench.analysis.ranking import rank_measured
from vlmhyperbench.reports.comparing import compare
from vlmhyperbench.reports.samples import read_samples
import vlmhyperbench_api.main

first, second = (read_samples(Path(name).read_bytes(), what=name) for name in sys.argv[1:])
ranking = rank_measured([each.measured()["exact_match"] for each in (first, second)], direction="higher")
print(*compare(first, second).deltas, [(spread.low, spread.high) for spread in ranking.spreads])
"""


def test_an_api_without_scipy_compares_and_ranks(tmp_path: Path) -> None:
    for name, answers in (("first", BASELINE), ("second", BETTER)):
        (tmp_path / name).write_bytes(samples_of(_evidence(name, answers)))
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_SCIPY, tmp_path / "first", tmp_path / "second"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "exact_match cer [(1, 2), (1, 2)]\n"
