"""Images of older code are replaced by new ones on the same volumes: nothing is lost, and open runs go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.containers.before import code_before
from tests.containers.composed import ROOT, Composed, build_images, composed
from tests.containers.pages import commands, follow
from tests.containers.room import need
from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import TERMINAL, until

pytestmark = pytest.mark.timeout(1500)  # images of two versions are built

SHORT = ("--model", "tiny-doc-vlm", "--task", "document-qa", "--limit", "20")
LONG = ("--model", "simulated-slow", "--task", "synthetic-questions", "--limit", "240")


@contextmanager
def older(folder: Path) -> Iterator[Composed]:
    """A stack of older code."""
    need("docker")
    with composed(checkout=code_before(folder), tag="before") as stack:
        yield stack


def upgrade(stack: Composed, backups: Path) -> None:
    """Do what docs/deploy/upgrade.md says of containers, with images that are there: building takes minutes."""
    stop_and_copy = commands("upgrade.md", containing="-cf /to/before.tar").partition("git pull")[0]
    follow(stack, stop_and_copy, backups=backups)
    stack.check_out(ROOT)
    stack.write_variables(VLMHB_TAG="latest")
    assert stack.prepare()[0] == 0
    stack.up()


def go_back(stack: Composed, backups: Path, code: Path) -> None:
    """Do what the page says of the way back."""
    stack.check_out(code)
    stack.write_variables(VLMHB_TAG="before")
    follow(stack, commands("upgrade.md", containing="-xf /from/before.tar"), backups=backups)


def run(stack: Composed, *words: str) -> str:
    """Submit a run by the command line of the stack's own version, and return its id."""
    until(lambda: stack.cli("ls", "runs", "--json").returncode == 0, "answer of the API", PATIENCE_S)
    done = stack.cli("run", *words, "--detach", "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout.splitlines()[-1])["data"]["id"])


def facts(stack: Composed, run_id: str) -> list[tuple[Any, ...]]:
    """Return who stored which answer of a run."""
    return stack.query(f"SELECT phase, ordinal, claim_id FROM fact WHERE run_id = '{run_id}' ORDER BY 1, 2, 3")


def end_of(stack: Composed, run_id: str) -> str:
    """Wait until a run has ended, and return its state."""
    statement = f"SELECT state FROM run WHERE id = '{run_id}'"
    return str(until(lambda: (state := stack.query(statement)[0][0]) in TERMINAL and state, "end", 2 * PATIENCE_S))


def report(stack: Composed, run_id: str, folder: Path) -> tuple[Any, dict[str, bytes]]:
    """Return the numbers of a run's report, and its files."""
    done = stack.cli("report", run_id, "--out", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    headline = json.loads(done.stdout.splitlines()[-1])["data"]["report"]["headline"]
    return headline, {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_upgrade_keeps_ended_runs_and_open_ones_go_on(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    with older(tmp_path / "code") as stack:
        code = stack.checkout
        ended = run(stack, *SHORT)
        assert end_of(stack, ended) == "SUCCEEDED"
        numbers, files = report(stack, ended, tmp_path / "before")
        answers = facts(stack, ended)
        build_images()
        opened = run(stack, *LONG)
        until(lambda: len(facts(stack, opened)) >= 40, "40 answers", PATIENCE_S)
        replaced = {container["Id"] for container in stack.containers("api") + stack.containers("inference-cpu")}

        stored = facts(stack, opened)
        asking = {claim for *_, claim in stored}

        upgrade(stack, backups)
        kept = facts(stack, opened)  # by the old version, and the first ones by the new
        assert replaced.isdisjoint(c["Id"] for c in stack.containers("api") + stack.containers("inference-cpu"))
        until(lambda: stack.cli("ls", "runs", "--json").returncode == 0, "answer of the API", PATIENCE_S)

        newer_numbers, newer_files = report(stack, ended, tmp_path / "after")
        assert (newer_files, facts(stack, ended)) == (files, answers)
        assert [row | newer for row, newer in zip(newer_numbers["rows"], numbers["rows"], strict=True)] == (
            newer_numbers["rows"]
        ), "a newer version may only add to what it shows"
        assert end_of(stack, opened) == "SUCCEEDED"
        assert set(kept) <= set(facts(stack, opened))
        assert {claim for *_, claim in facts(stack, opened)} > asking, "the new version went on with an open run"
        assert len(facts(stack, opened)) == len({(phase, ordinal) for phase, ordinal, _ in facts(stack, opened)})
        assert end_of(stack, run(stack, *SHORT)) == "SUCCEEDED"
        audit(stack)

        go_back(stack, backups, code)
        until(lambda: stack.cli("ls", "runs", "--json").returncode == 0, "answer of the API", PATIENCE_S)
        assert facts(stack, ended) == answers
        assert report(stack, ended, tmp_path / "back") == (numbers, files)
        assert set(stored) <= set(facts(stack, opened)), "the copy has every answer from before the upgrade"
