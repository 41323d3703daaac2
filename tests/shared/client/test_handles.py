"""Handles of runs and experiments, the same in both clients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.builders import run_spec, shown_run
from vlmhyperbench.client import (
    AsyncClient,
    AsyncExperimentHandle,
    AsyncRunHandle,
    Client,
    ExperimentHandle,
    RunHandle,
)
from vlmhyperbench.errors import InvalidInput, NotFound, NotReady, Unavailable
from vlmhyperbench.wire.results import Result

pytestmark = pytest.mark.anyio
URL = "http://127.0.0.1:1"
ID = "1f0c3a9e-0000-4000-8000-000000000001"
FILE = "1f0c3a9e-0000-4000-8000-00000000000f"
SCORES = [{"metric": "anls", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 9, "n_without_value": 1}]
RUN = shown_run(
    id=ID,
    headline={"scores": SCORES},
    spec=run_spec().model_dump(mode="json"),
    phases=[],
    jobs=[],
    in_flight=4,
    can_retune=False,
    state="SUCCEEDED",
)


def _result(ordinal: int, **changes: object) -> dict[str, Any]:
    nothing = dict.fromkeys(name for name, field in Result.model_fields.items() if field.is_required())
    measure = {"metric": "anls", "value": ordinal / 10, "outcome": "scored"}
    return {
        **nothing,
        "run_id": ID,
        "phase": 1,
        "ordinal": ordinal,
        "sample": ordinal,
        "repeat": 0,
        "references": [],
        "images": [],
        "status": "ok",
        "outcome": "answered",
        "group": {"tier": "ab"[ordinal % 2]},
        "measures": [measure],
        **changes,
    }


def _answering(
    routes: dict[str, object], seen: list[httpx2.Request] | None = None
) -> Callable[[httpx2.Request], httpx2.Response]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if seen is not None:
            seen.append(request)
        found = routes[request.url.path.removeprefix("/api/v1")]
        return httpx2.Response(200, content=found) if isinstance(found, bytes) else httpx2.Response(200, json=found)

    return answer


def _client(routes: dict[str, object], seen: list[httpx2.Request] | None = None) -> Client:
    return Client(URL, "k", transport=httpx2.MockTransport(_answering(routes, seen)))


def test_both_clients_have_the_same_handles() -> None:
    for blocking, asynchronous in ((RunHandle, AsyncRunHandle), (ExperimentHandle, AsyncExperimentHandle)):
        own, theirs = ({name for name in vars(kind) if not name.startswith("_")} for kind in (blocking, asynchronous))
        assert own == theirs
        assert {"wait", "refresh", "live", "pause", "resume", "cancel", "metrics", "report"} <= own


def test_refresh_updates_the_same_object_and_keeps_its_last_progress() -> None:
    progress = {"run_id": ID, "stage": "inference", "done": 4, "total": 10}
    with _client({f"/runs/{ID}": RUN, f"/runs/{ID}/pause": {**RUN, "is_paused": True, "progress": progress}}) as client:
        run = client.runs.get(ID)
        assert run.pause() is run
        assert (run.is_paused, run.progress.done if run.progress else None) == (True, 4)
        assert run.refresh() is run
        assert (run.is_paused, run.progress.done if run.progress else None) == (False, 4)


async def test_metrics_are_the_scores_that_the_report_computed() -> None:
    routes: dict[str, object] = {f"/runs/{ID}": RUN}
    with _client(routes) as client:
        found = client.runs.get(ID).metrics()
    assert found.to_polars().select("run", "metric", "value", "ci_low", "ci_high", "n").rows() == [
        ("mine", "anls", 0.5, 0.4, 0.6, 9)
    ]
    async with AsyncClient(URL, "k", transport=httpx2.MockTransport(_answering(routes))) as client:
        assert (await (await client.runs.get(ID)).metrics()).to_dicts() == found.to_dicts()


def test_metrics_by_a_group_come_from_the_summary() -> None:
    ends = {"ci_low": 0.9, "ci_high": 1.0, "lower": None, "upper": None, "n": 3, "n_without_value": 0}
    form = {"group": ["form"], "value": 1.0, **ends}
    names = {"metric": "anls", "label": "ANLS", "profile": "paper", "version": "1.0.0", "extractor": "text@1"}
    score = {
        **form,
        **names,
        "group": [],
        "evaluation_id": "e1",
        "direction": "higher",
        "groups": {"doc_class": [form]},
    }
    with _client({f"/runs/{ID}": {**RUN, "quality": [score]}}) as client:
        run = client.runs.get(ID)
        (row,) = run.metrics(by="doc_class")
        assert (row.group, row.value, row.ci_low, row.n) == ("form", 1.0, 0.9, 3)
        with pytest.raises(NotFound) as refused:
            run.metrics(by="colour")
    assert "doc_class" in refused.value.cure


@pytest.mark.parametrize(("state", "kind"), [("RUNNING", NotReady), ("FAILED", NotFound)])
def test_a_run_without_scores_raises_the_reason(state: str, kind: type[Exception]) -> None:
    with _client({f"/runs/{ID}": {**RUN, "state": state, "headline": None}}) as client, pytest.raises(kind):
        client.runs.get(ID).metrics()


def test_samples_are_filtered_by_the_api_if_possible_and_otherwise_by_the_client() -> None:
    seen: list[httpx2.Request] = []
    routes: dict[str, object] = {
        f"/runs/{ID}": RUN,
        "/results": {"items": [_result(i) for i in range(4)], "next": None},
    }
    with _client(routes, seen) as client:
        run = client.runs.get(ID)
        found = run.samples(where={"outcome": "answered", "tier": "b"})
        assert [row.ordinal for row in found] == [1, 3]
        assert seen[-1].url.params["outcome"] == "answered"
        assert "tier" not in seen[-1].url.params
        assert [row.ordinal for row in run.samples(where=lambda row: row.ordinal > 1, limit=1)] == [2]
        assert found.to_polars().select("ordinal", "tier", "anls").rows() == [(1, "b", 0.1), (3, "b", 0.3)]
        with pytest.raises(InvalidInput) as refused:
            run.samples(where={"teir": "b"})
    assert "tier" in refused.value.cure


def test_every_page_of_samples_is_read() -> None:
    pages = {None: {"items": [_result(0)], "next": "c"}, "c": {"items": [_result(1)], "next": None}}

    def answer(request: httpx2.Request) -> httpx2.Response:
        found = RUN if request.url.path.endswith(ID) else pages[request.url.params.get("cursor")]
        return httpx2.Response(200, json=found)

    with Client(URL, "k", transport=httpx2.MockTransport(answer)) as client:
        assert len(client.runs.get(ID).samples()) == 2


def test_a_report_file_is_stored_completely_or_not_at_all(tmp_path: Path) -> None:
    with _client(_with_file("report.html", b"<html>")) as client:
        assert client.runs.get(ID).report(tmp_path / "r") == tmp_path / "r" / "report.html"
    assert (tmp_path / "r" / "report.html").read_bytes() == b"<html>"
    with _client(_with_file("report.html", b"<html>", sha256="0" * 64)) as client, pytest.raises(Unavailable):
        client.runs.get(ID).report(tmp_path / "other")
    with _client(_with_file("../evil.html", b"")) as client, pytest.raises(Unavailable):
        client.runs.get(ID).report(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def _with_file(name: str, content: bytes, sha256: str | None = None) -> dict[str, object]:
    file = {
        "id": FILE,
        "run_id": ID,
        "experiment_id": None,
        "kind": "report",
        "name": name,
        "media_type": "text/plain",
        "storage_key": f"runs/{ID}/{name}",
        "size_bytes": len(content),
        "sha256": sha256 or hashlib.sha256(content).hexdigest(),
        "created_at": "2026-01-01T00:00:00Z",
    }
    report = {"scope": "run", "id": ID, "headline": None, "files": [file]}
    return {f"/runs/{ID}": RUN, f"/reports/{ID}": report, f"/artifacts/{FILE}/content": content}
