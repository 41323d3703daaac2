"""The page of public benchmarks is what their entries state today, and claims no more than was run."""

from __future__ import annotations

from benchmarks.harness_scores import CASES, DIFFERING, score_here
from tests.architecture.benchmark_pages import PAGE, ROOT, page
from tests.support.benchmarks import fixture
from vlmhyperbench.registry.loading import load_catalogue

TASKS = {name: task for name, task in load_catalogue(ROOT / "registries").tasks.items() if task.benchmark is not None}


def test_the_page_is_that_of_the_entries() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_entry_is_verified_on_a_fixture_and_names_its_sources() -> None:
    for task in TASKS.values():
        assert task.benchmark is not None
        assert task.benchmark.verified == "fixture"
        assert task.benchmark.sources
        assert task.benchmark.differences, f"{task.name} does not say where harnesses differ"
        assert task.benchmark.harnesses or "has it" in task.benchmark.differences


def test_every_dataset_is_pinned_to_a_commit_or_says_why_not() -> None:
    datasets = load_catalogue(ROOT / "registries").datasets
    for task in TASKS.values():
        assert task.benchmark is not None
        assert datasets[task.dataset].revision or "evision" in (task.benchmark.not_found or ""), task.name


def test_the_scores_that_were_equal_to_those_of_harnesses_are_the_scores_of_today() -> None:
    written = (ROOT / "docs/results/harness-scores.md").read_text(encoding="utf-8")
    for task, metric, profile, harness in CASES.values():
        here = f"{score_here(fixture(task), metric, profile):.6f}"
        assert (
            f"| {task} | `{metric}@{profile}` | {len(fixture(task).answers)} | {here} | {harness} | {here} |" in written
        )
    for task, metric, profile, harness, why in DIFFERING.values():
        here = f"{score_here(fixture(task), metric, profile):.6f}"
        row = f"| {task} | `{metric}@{profile}` | {len(fixture(task).answers)} | {here} | {harness} | "
        assert any(line.startswith(row) and line.endswith(f"| {why} |") for line in written.splitlines())
