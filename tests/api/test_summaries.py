"""A run over REST has quality and performance from its stored summary; without one it has neither."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tests.api.conftest import Served
from tests.api.test_files_and_workers import _add_file, _run
from tests.shared.reports.builders import evidence
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.summaries.codec import SCHEMA, to_json
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench.wire.runs import RunDetail

pytestmark = pytest.mark.anyio


async def _shown(api: Served, content: bytes | None) -> RunDetail:
    """Read a run that has a summary with this content."""
    run_id = await _run(api)
    if content is not None:
        await _add_file(api, run_id, "summary.json", content, kind="summary")
    return RunDetail.model_validate((await api.http.get(f"/runs/{run_id}")).json())


async def test_a_run_whose_summary_cannot_be_read_is_shown_without_it(api: Served, tmp_path: Path) -> None:
    run_id = await _run(api)
    await _add_file(api, run_id, "summary.json", to_json(_summary()), kind="summary")
    (stored,) = (tmp_path / "storage").rglob("summary.json")
    stored.unlink()
    stored.symlink_to("/proc/self/mem")  # reading its beginning is an error of the device
    with pytest.raises(Unavailable):
        await api.storage.open(str(stored.relative_to(tmp_path / "storage")), "0" * 64)
    run = RunDetail.model_validate((await api.http.get(f"/runs/{run_id}")).json())
    assert (run.quality, run.performance) == ([], None)


def _summary() -> RunSummary:
    return replace(summarise_run(evidence()), id=str(UUID(int=1)))


async def test_a_run_shows_quality_with_groups_and_speeds_with_gates(api: Served) -> None:
    summary = _summary()
    run = await _shown(api, to_json(summary))
    assert [score.metric for score in run.quality] == ["exact_match", "anls", "cer"]
    primary, stored = run.quality[0], summary.metrics[0]
    assert (primary.value, primary.ci_low, primary.n, primary.n_without_value) == (
        stored.value,
        stored.low,
        stored.n_scored,
        stored.n_unscored,
    )
    assert {column: [score.group for score in scores] for column, scores in primary.groups.items()} == {
        column: [list(score.group) for score in scores if score.key == "exact_match"]
        for column, scores in summary.groups.items()
    }
    assert run.performance is not None
    assert run.performance.times["latency_ms"].p50 == summary.performance.times["latency_ms"].p50
    assert [gate.name for gate in run.performance.gates] == [gate.name for gate in summary.performance.gates]
    assert run.performance.validity == summary.performance.state


@pytest.mark.parametrize("content", [None, b"{}", b"nonsense"])
async def test_a_run_without_a_summary_of_this_version_has_none(api: Served, content: bytes | None) -> None:
    run = await _shown(api, content)
    assert (run.quality, run.performance) == ([], None)


async def test_a_summary_of_another_version_is_ignored(api: Served) -> None:
    content = to_json(_summary()).replace(SCHEMA.encode(), b"vlmhb/summary/v0")
    assert (await _shown(api, content)).performance is None
