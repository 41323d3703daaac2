"""Images of older code are replaced by new ones on the same volumes, whose copy is put back later: nothing is lost."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.containers.before import code_before
from tests.containers.composed import IMAGES, ROOT, Composed, build_images, composed, docker
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


def upgrade(stack: Composed, copy: Path) -> None:
    """Do what docs/deploy/upgrade.md says of containers."""
    build_images()
    stack.compose("stop")
    volumes = [f"--volume={stack.project}_{name}:/from/{name}:ro" for name in ("postgres", "home")]
    tar = (
        "--entrypoint",
        "tar",
        f"--volume={copy.parent}:/to",
        f"{IMAGES}-api",
        "-C",
        "/from",
        "-cf",
        f"/to/{copy.name}",
    )
    docker("run", "--rm", "--user=0", "--network=none", *volumes, *tar, ".")
    stack.check_out(ROOT)
    stack.write_variables(VLMHB_TAG="latest")
    assert stack.prepare()[0] == 0
    stack.up()


def restore(stack: Composed, copy: Path) -> None:
    """Put a copy of the volumes in the place of what they have, as docs/deploy/backup.md says."""
    stack.compose("down", "--volumes")
    stack.compose("create", "--pull", "never")
    volumes = [f"--volume={stack.project}_{name}:/to/{name}" for name in ("postgres", "home")]
    tar = ("--entrypoint", "tar", f"--volume={copy.parent}:/from:ro", f"{IMAGES}-api")
    docker("run", "--rm", "--user=0", "--network=none", *volumes, *tar, "-C", "/to", "-xf", f"/from/{copy.name}")
    stack.up()


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
    with older(tmp_path / "code") as stack:
        ended = run(stack, *SHORT)
        assert end_of(stack, ended) == "SUCCEEDED"
        numbers, files = report(stack, ended, tmp_path / "before")
        answers = facts(stack, ended)
        opened = run(stack, *LONG)
        until(lambda: len(facts(stack, opened)) >= 40, "40 answers", PATIENCE_S)
        replaced = {container["Id"] for container in stack.containers("api") + stack.containers("inference-cpu")}

        copied_at_least = set(facts(stack, opened))
        upgrade(stack, tmp_path / "before.tar")
        with tarfile.open(tmp_path / "before.tar") as copied:
            assert {"./postgres/PG_VERSION", "./home/storage"} <= set(copied.getnames())
        kept = facts(stack, opened)
        assert replaced.isdisjoint(c["Id"] for c in stack.containers("api") + stack.containers("inference-cpu"))
        until(lambda: stack.cli("ls", "runs", "--json").returncode == 0, "answer of the API", PATIENCE_S)
        assert len(kept) < 240, "the run is under way"

        newer_numbers, newer_files = report(stack, ended, tmp_path / "after")
        assert (newer_files, facts(stack, ended)) == (files, answers)
        assert [row | newer for row, newer in zip(newer_numbers["rows"], numbers["rows"], strict=True)] == (
            newer_numbers["rows"]
        ), "a newer version may only add to what it shows"
        assert end_of(stack, opened) == "SUCCEEDED"
        assert set(kept) <= set(facts(stack, opened))
        assert len(facts(stack, opened)) == len({(phase, ordinal) for phase, ordinal, _ in facts(stack, opened)})
        assert end_of(stack, run(stack, *SHORT)) == "SUCCEEDED"
        restore(stack, tmp_path / "before.tar")  # the copy of the older version, which is migrated
        until(lambda: stack.cli("ls", "runs", "--json").returncode == 0, "answer of the API", PATIENCE_S)
        assert (report(stack, ended, tmp_path / "back")[1], facts(stack, ended)) == (files, answers)
        assert end_of(stack, opened) == "SUCCEEDED"
        assert copied_at_least <= set(facts(stack, opened))
        audit(stack)  # type: ignore[arg-type]  # what it asks is only `query`
