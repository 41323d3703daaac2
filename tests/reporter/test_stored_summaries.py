"""A comparison uses the stored summaries of its runs; one that is missing or of another version is computed again."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tests.reporter.test_reporting import _answered, _report
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.reports.bundles import RunBundle
from vlmhyperbench.reports.composing import compose_comparison
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.summaries.codec import from_json, to_json
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench_reporter.reading import read_bundle

pytestmark = pytest.mark.anyio


async def _reported(runtime: Runtime, cpu: CpuChildren, folder: Path) -> RunBundle:
    run_id = await _answered(runtime, cpu, folder)
    await _report(runtime, cpu, run_id)
    return await read_bundle(runtime, run_id)


def _row(bundle: RunBundle) -> dict[str, object]:
    """Return the headline row of the only run of a comparison."""
    document, _, _ = pickle.loads(compose_comparison("e", "one", "DONE", [bundle]).content)
    (row,) = document.headline
    return dict(row)


async def test_a_comparison_takes_the_numbers_of_the_stored_summary(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    bundle = await _reported(runtime, cpu, tmp_path)
    assert bundle.summary is not None
    stored = from_json(bundle.summary)
    marked = replace(stored, counts=replace(stored.counts, answered=4711))
    assert _row(replace(bundle, summary=to_json(marked)))["ok"] == 4711


async def test_a_stored_summary_equals_one_that_is_computed_again(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    bundle = await _reported(runtime, cpu, tmp_path)
    rows = [_row(replace(bundle, summary=content)) for content in (bundle.summary, None, b"{}")]
    assert rows[0] == rows[1] == rows[2]


async def test_the_state_of_a_run_that_ended_after_its_summary_is_updated(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    bundle = await _reported(runtime, cpu, tmp_path)
    assert _row(bundle)["state"] == "PARTIAL"
    assert _row(replace(bundle, state=RunState.CANCELLED))["state"] == "CANCELLED"


def _damage(storage: Path) -> None:
    (summary,) = storage.rglob("summary.json")
    summary.write_bytes(b"cut short")


async def test_a_damaged_summary_is_computed_again(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    bundle = await _reported(runtime, cpu, tmp_path)
    _damage(Path(runtime.settings.storage_url))
    again = await read_bundle(runtime, UUID(bundle.id))
    assert again.summary is None
    assert _row(again) == _row(bundle)
