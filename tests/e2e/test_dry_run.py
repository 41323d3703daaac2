"""`run --dry-run` on a real stack: the plan before a run, and what earlier runs make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.stack import Stack
from vlmhyperbench.cli import exits
from vlmhyperbench.registry.schemas import RunEntry

FLAGS = ("run", "--model", "simulated-instant", "--task", "document-qa", "--limit", "6", "--dry-run")


def test_a_dry_run_creates_nothing_and_knows_the_pace_of_an_earlier_run(
    stack: Stack, command: Callable[..., Any]
) -> None:
    earlier = stack.client.runs.list().items
    first = command(*FLAGS)
    assert (first["samples"]["count"], first["time"]["expected_s"]) == (6, None)
    assert first["configuration"]["dataset.limit"] == {"value": 6, "origin": "--limit"}
    assert stack.client.runs.list().items == earlier
    entry = RunEntry.model_validate({"target": {"model": "simulated-instant"}, "task": "document-qa", "limit": 6})
    stack.wait(stack.client.runs.create(entry).id)
    plan = command(*FLAGS)
    assert (plan["samples"]["count"], plan["samples"]["basis"]) == (6, "manifest")
    time = plan["time"]
    assert 0 < time["shortest_s"] <= time["expected_s"] <= time["longest_s"]
    endless = command(*FLAGS[:-2], str(10**12), "--dry-run")
    assert (endless["samples"]["basis"], endless["time"]["expected_s"]) == ("limit", None)
    assert {device["fit"] for device in plan["memory"]["devices"]} == {"fits"}


def test_a_plan_of_more_samples_loads_once_and_counts_only_what_was_asked(stack: Stack) -> None:
    def entry(samples: int) -> RunEntry:
        given = {
            "target": {"model": "simulated-instant", "engine_params": {"ttft_ms": 200}},
            "task": "synthetic-questions",
            "dataset": {"name": "synthetic-questions", "limit": samples},
            "scenario": {"name": "one-by-one", "kind": "offline", "in_flight": 1},
            "reuse": "cache",
        }
        return RunEntry.model_validate(given)

    def planned_s(samples: int) -> float:
        expected_s = stack.client.runs.plan(entry(samples)).time.expected_s
        assert expected_s is not None
        return expected_s

    for samples in (5, 25):  # the second one reuses the answers of the first
        assert stack.wait(stack.client.runs.create(entry(samples)).id).state == "SUCCEEDED"
    claims = "SELECT CAST(client ->> 'answers' AS int) FROM claim WHERE client IS NOT NULL ORDER BY started_at DESC"
    assert [row[0] for row in stack.query(claims)[:2]] == [20, 5]
    loading_s = planned_s(100) - (planned_s(200) - planned_s(100))
    assert 20 <= planned_s(200) - planned_s(100) < 60  # loading in each answer would make it hundreds
    assert 0 < loading_s < planned_s(100)


def test_a_dry_run_of_an_experiment_places_its_runs(command: Callable[..., Any]) -> None:
    plan = command("run", "demo", "--dry-run")
    assert {placed["worker"] for placed in plan["placements"]} | set(plan["waiting"])


def test_a_dry_run_takes_no_files_because_it_registers_nothing(command: Callable[..., Any], capsys: Any) -> None:
    from vlmhyperbench.cli.main import main

    assert main(["run", "--model", "gguf:/no/such.gguf", "--task", "document-qa", "--dry-run"]) == exits.USAGE
    assert "dry run" in capsys.readouterr().err
