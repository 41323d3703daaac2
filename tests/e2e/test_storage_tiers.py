"""A run through all tiers, by the command line: its results are the same bytes in each, and it can be used again."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_rerunning import entry, own_rows, reasons
from tests.support.audit import audit
from vlmhyperbench.cli import exits
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.wire.runs import RunRescore


def pages(stack, run_id):
    """All results of a run in pages of seven, as the API gives them."""
    found, cursor = [], None
    while True:
        page = stack.client.results(run_id=run_id, limit=7, cursor=cursor)
        found.append(page.model_dump_json())
        if (cursor := page.next) is None:
            return found


def report(stack, run_id):
    """The summary of a run without what differs between two runs that reuse the same answers."""
    [file] = [file for file in stack.client.artifacts(run_id=run_id).items if file.kind == "summary"]
    summary = json.loads(stack.client.artifact_content(file.id))
    return {name: summary[name] for name in ("counts", "performance", "described", "metrics", "groups", "crossings")}


def tier_of(stack, run_id):
    [run] = stack.client.stored_runs([run_id]).items
    return run.tier


def test_a_run_goes_through_all_tiers_and_back(stack, command):
    run = stack.wait(stack.client.runs.create(entry()).id)
    rescored = stack.wait(stack.client.runs.rescore(run.id, RunRescore(metrics=("exact_match", "anls"))).id)
    hot, of_child = pages(stack, run.id), pages(stack, rescored.id)
    assert len(hot) == 5
    planned = command("storage", "move", str(run.id), "--tier", "warm", "--dry-run")
    assert [(item["tier"], item["next"], item["wanted"]) for item in planned] == [("hot", "warm", None)]
    assert tier_of(stack, run.id) == "hot"

    [warm] = command("storage", "move", str(run.id), "--tier", "warm", "--wait")
    assert (warm["tier"], warm["rows"], own_rows(stack, run)) == ("warm", 34, 0)  # with the warm-up
    assert (pages(stack, run.id), pages(stack, rescored.id)) == (hot, of_child)
    again = stack.wait(stack.client.runs.rescore(run.id, RunRescore(metrics=("exact_match", "anls"))).id)
    assert report(stack, again.id) == report(stack, rescored.id)
    assert report(stack, again.id)["metrics"]
    assert len(pages(stack, again.id)) == 5
    rerun = stack.wait(stack.client.runs.rerun(run.id).id)
    assert reasons(stack, rerun) == {("reused", "same_request"): 30}

    command("storage", "move", str(run.id), "--tier", "cold", "--wait", code=exits.SETUP)
    readers = [str(reader.id) for reader in (rescored, again, rerun)]
    command("storage", "move", *readers, "--tier", "cold", "--wait")
    [cold] = command("storage", "move", str(run.id), "--tier", "cold", "--wait")
    assert (cold["tier"], cold["rows"]) == ("cold", 34)
    with pytest.raises(VlmHyperBenchError) as refused:
        pages(stack, run.id)
    assert (refused.value.code, str(run.id) in refused.value.cure) == ("run_archived", True)
    status = command("storage", "status")
    assert {total["tier"]: total["runs"] for total in status["tiers"]}["cold"] == 4

    command("storage", "restore", str(rescored.id), "--wait")
    assert tier_of(stack, run.id) == "warm"  # the child reads its rows
    assert (pages(stack, run.id), pages(stack, rescored.id)) == (hot, of_child)
    command("storage", "restore", "--all", "--tier", "hot", "--wait")
    assert (pages(stack, run.id), pages(stack, rescored.id)) == (hot, of_child)
    audit(stack)
