"""A platform is backed up while a run goes on, and restored into a fresh home with the same numbers."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack, until
from vlmhyperbench.db import migrations
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.schemas import RunEntry

SEED = 77


def submit(stack, *, model, limit):
    given = {
        "target": {"model": model},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": limit, "seed": SEED},
    }
    return stack.client.runs.create(RunEntry.model_validate(given))


def command(home, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *map(str, arguments), "--json"],
        env={**os.environ, "VLMHB_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, json.loads(done.stdout or done.stderr)


def numbers(stack, run_id):
    return stack.client.runs.get(run_id).metrics().to_polars().to_dicts()


@pytest.fixture(scope="module")
def backed_up(stack, tmp_path_factory):
    """A finished run, a run that was under way when the backup was taken, and the backup."""
    folder = tmp_path_factory.mktemp("backup") / "first"
    first = stack.wait(submit(stack, model="simulated-instant", limit=30).id)
    second = submit(stack, model="simulated-slow", limit=150)
    stack.wait_done(second.id, 1)
    code, taken = command(stack.home.root, "backup", folder)
    assert code == 0, taken
    assert stack.client.runs.get(second.id).state == "RUNNING"
    return folder, first, second, taken["data"]


@pytest.fixture
def fresh_home(tmp_path_factory):
    """A home that does not exist yet; its stack is stopped at the end."""
    home = Home(tmp_path_factory.mktemp("h") / "r")
    yield home
    control.down(home)


def test_a_backup_says_what_it_holds_and_has_no_secret(stack, backed_up):
    folder, _, _, taken = backed_up
    assert taken["revision"] == max(migrations.known())
    assert taken["objects"] > 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [
            "database.dump",
            "manifest.json",
            "objects.jsonl",
            "storage",
            *(["home"] if (folder / "home").exists() else []),
        ]
    )
    secret = (stack.home.run / "pepper").read_bytes().strip()
    key = stack.home.api_key().split("_", 1)[1].encode()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret not in content
            assert key not in content
    assert not any("pepper" in path.name or "key" in path.name for path in folder.rglob("*"))


def test_a_restored_platform_has_the_same_numbers_and_ends_what_was_under_way(stack, backed_up, fresh_home, tmp_path):
    folder, first, second, _ = backed_up
    expected = numbers(stack, first.id)
    assert expected
    code, restored = command(fresh_home.root, "restore", folder)
    assert code == 0, restored
    kept = os.environ["VLMHB_HOME"]
    os.environ["VLMHB_HOME"] = str(fresh_home.root)
    try:
        assert control.up(fresh_home, host="127.0.0.1", port=0, is_tied=True)
        again = Stack(fresh_home)
        with again.client:
            assert numbers(again, first.id) == expected
            assert again.client.runs.get(first.id).state == "SUCCEEDED"
            ended = again.wait_without_pauses(second.id)
            assert (ended.state, again.rows(second.id)) == ("SUCCEEDED", ended.total)
            assert again.client.runs.get(first.id).report(tmp_path / "report")
    finally:
        os.environ["VLMHB_HOME"] = kept


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda folder: (folder / "database.dump").write_bytes(b"no dump"), "backup_damaged"),
        (lambda folder: next(p for p in (folder / "storage").rglob("*") if p.is_file()).unlink(), "backup_damaged"),
        (lambda folder: rewrite(folder, format=2), "backup_newer"),
        (lambda folder: rewrite(folder, revision="9999"), "backup_newer"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "no_backup"),
    ],
    ids=["a damaged dump", "a missing file", "a newer format", "a newer schema", "a broken manifest"],
)
def test_what_cannot_be_restored_is_refused_and_changes_nothing(backed_up, tmp_path, harm, code, wording):
    damaged, home = tmp_path / "damaged", tmp_path / "home"
    shutil.copytree(backed_up[0], damaged)
    harm(damaged)
    status, answer = command(home, "restore", damaged)
    assert status in {2, 3}
    assert answer["data"]["code"] == code
    wording(answer["data"]["message"].replace(str(tmp_path), "…").split("/storage/")[0])
    assert not home.exists()


def rewrite(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_home_that_is_not_empty_is_refused_unless_it_may_be_moved_aside(stack, backed_up, tmp_path):
    status, answer = command(stack.home.root, "restore", backed_up[0])
    assert (status, answer["data"]["code"]) == (3, "stack_runs")
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "mine").write_text("kept")
    status, answer = command(tmp_path, "restore", backed_up[0])
    assert (status, answer["data"]["code"]) == (3, "not_empty")
    status, _ = command(tmp_path, "restore", backed_up[0], "--replace")
    assert status == 0
    [aside] = tmp_path.glob("replaced-*")
    assert (aside / "storage" / "mine").read_text() == "kept"


def test_a_restore_that_was_cut_off_keeps_the_stack_down_until_it_is_repeated(backed_up, tmp_path):
    home = Home(tmp_path)
    home.run.mkdir()
    home.restoring_file.write_text("writing")
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "half").touch()
    status, answer = command(tmp_path, "up")
    assert (status, answer["data"]["code"]) == (3, "restore_unfinished")
    status, _ = command(tmp_path, "restore", backed_up[0])
    assert status == 0
    assert not home.restoring_file.exists()
    assert not (tmp_path / "postgres" / "half").exists()
    assert until(lambda: (tmp_path / "postgres" / "data" / "PG_VERSION").exists(), "a database", PATIENCE_S)
