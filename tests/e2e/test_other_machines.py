"""A worker on another machine joins by URL and token, works over TLS and S3, is cut off, and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from tests.support.audit import audit
from tests.support.bucket import KEY, SECRET, serve_bucket
from tests.support.machines import Machine, free_ports, other_machine
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack, running_stack, until
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry

SAMPLES = 1000
_TIMERS = {"LEASE_S": 16, "SELF_FENCE_S": 9, "STATEMENT_TIMEOUT_S": 4, "STALE_WORKER_S": 12, "UNCLAIMED_S": 10}
"""Long enough for a busy machine: what is lost here is lost because the cable is out."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with other_machine() as made:
        yield made


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    (registries / "models" / "steady.yaml").write_text(
        "description: 50 ms an answer.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 40, gap_ms: 2, tokens: 6, usage: always}\n"
    )
    return registries


@pytest.fixture(scope="module")
def stack(registries: Path, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack without an inference worker, whose storage is a bucket, and which listens on the cable."""
    with serve_bucket(tmp_path_factory.mktemp("s3"), machine.near, is_watched=False) as bucket:
        bucket.put("store", {})
        storage = {
            "VLMHB_STORAGE_URL": "s3://store/stack",
            "VLMHB_STORAGE_S3__ENDPOINT_URL": bucket.url,
            "VLMHB_STORAGE_S3__REGION": "us-east-1",
            "VLMHB_STORAGE_S3__ACCESS_KEY_ID": KEY,
            "VLMHB_STORAGE_S3__SECRET_ACCESS_KEY": SECRET,
        }
        services = ("scheduler", "api", "evaluation", "reporting")
        listen = f"{machine.near}:{free_ports(machine.near)}"
        timers = {f"VLMHB_TIMERS__{name}": str(value) for name, value in _TIMERS.items()}
        with running_stack(registries, services=services, listen=listen, **storage, **timers) as found:
            yield found


def token_of(stack: Stack, folder: Path, **choices: Any) -> Path:
    path = folder / "token"
    path.write_text(stack.client.create_join_token(**choices).token)
    return path


def start(
    stack: Stack,
    machine: Machine,
    home: Path,
    token: Path,
    *,
    kind: str = "inference",
    name: str = "far",
    **changed: str,
) -> subprocess.Popen[bytes]:
    """Start a worker on the other machine, as its user does there."""
    words = {
        "--server": stack.listening_url,
        "--token-file": str(token),
        "--ca-file": str(stack.home.root / "tls/ca.pem"),
    }
    options = [word for pair in (words | changed).items() for word in pair if word]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    with (home.parent / "worker.log").open("ab") as log:
        return subprocess.Popen(
            machine.argv([sys.executable, "-m", "vlmhyperbench.cli.main", "worker", kind, *options]),
            env={**environment, "VLMHB_HOME": str(home), "VLMHB_WORKER_NAME": name},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@pytest.fixture(scope="module")
def far(stack: Stack, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Home of a worker on the other machine, which has joined."""
    folder = tmp_path_factory.mktemp("far")
    process = start(stack, machine, folder / "home", token_of(stack, folder, kind="inference"))
    try:
        live = "SELECT count(*) FROM worker WHERE kind = 'inference' AND state = 'LIVE'"
        until(
            lambda: process.poll() is not None or stack.query(live) == [(1,)],
            "the worker of the other machine",
            PATIENCE_S,
            last=(folder / "worker.log").read_text,
        )
        assert process.poll() is None, (folder / "worker.log").read_text()
        yield folder / "home"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def submit(stack: Stack, limit: int) -> Any:
    given = {
        "target": {"model": "steady"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": limit},
    }
    return stack.client.runs.create(RunEntry.model_validate(given))


def log_of(home: Path) -> str:
    return (home.parent / "worker.log").read_text()


def test_a_run_is_done_by_a_worker_of_another_machine(stack: Stack, far: Path) -> None:
    ended = stack.wait(submit(stack, 20).id, timeout_s=PATIENCE_S)
    assert ended.state == "SUCCEEDED", stack.logs() + log_of(far)
    assert stack.rows(ended.id) == 20
    assert stack.client.report(ended.id)
    audit(stack)


def test_an_experiment_on_a_stack_in_a_bucket_goes_on_to_its_report(stack: Stack, far: Path) -> None:
    matrix = {"targets": [{"model": "steady"}, {"model": "simulated-instant"}], "tasks": ["synthetic-questions"]}
    dataset = {"name": "synthetic-questions", "limit": 12}
    entry = ExperimentEntry.model_validate({"matrix": matrix, "defaults": {"dataset": dataset}})
    experiment = stack.wait_experiment(stack.client.experiments.create(entry).id, timeout_s=PATIENCE_S)
    assert experiment.state == "DONE", stack.logs() + log_of(far)
    files = {item.name: item.id for item in stack.client.artifacts(experiment_id=experiment.id).items}
    assert len(json.loads(stack.client.artifact_content(files["report.json"]))["runs"]) == 2
    assert not any(path.is_file() for path in stack.home.storage.rglob("*"))
    audit(stack)


def test_tokens_are_made_listed_and_revoked_by_commands(
    stack: Stack, command: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = command("workers", "token", "create", "--kind", "evaluation", "--expires-in", "2h", "--uses", "3")
    assert (made["kind"], made["max_uses"], made["state"]) == ("evaluation", 3, "valid")
    written = command("workers", "token", "create", "--out", str(tmp_path / "token"))
    assert "token" not in written
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "token").read_text().startswith(f"{written['prefix']}_")
    assert command("workers", "token", "revoke", made["prefix"])["state"] == "revoked"
    before = command("workers", "token", "ls")
    assert main(["workers", "token", "create", "--out", str(tmp_path / "none" / "token"), "--json"]) == exits.SETUP
    for nothing in ("", "a/b", "../../health"):
        assert main(["workers", "token", "revoke", nothing, "--json"]) == exits.USAGE
    capsys.readouterr()
    assert command("workers", "token", "ls") == before  # a token that cannot be written is not made
    states = {token["prefix"]: token["state"] for token in command("workers", "token", "ls")}
    assert (states[made["prefix"]], states[written["prefix"]]) == ("revoked", "valid")


def test_what_the_worker_got_is_private_and_of_few_rights(stack: Stack, far: Path) -> None:
    stored = far / "run" / "settings.json"
    assert stored.stat().st_mode & 0o777 == 0o600
    given = json.loads(stored.read_text())
    assert "key_pepper" not in given
    accounts = [urlsplit(given[name]) for name in ("database_url", "redis_url")]
    (token,) = [item for item in stack.client.join_tokens().items if item.prefix == accounts[0].username]
    assert (token.account, accounts[1].username, accounts[1].scheme) == ("own", token.prefix, "rediss")
    rights = "SELECT has_table_privilege(%s, %s, 'SELECT')"
    assert [stack.query(rights, token.prefix, table) for table in ("api_key", "join_token", "job")] == [
        [(False,)],
        [(False,)],
        [(True,)],
    ]
    denied = [entry for entry in redis_of(stack).acl_log() if entry["username"] == token.prefix]
    assert not denied, denied
    secrets = (*(str(account.password) for account in accounts), SECRET)
    assert not any(secret in log_of(far) for secret in secrets)


def redis_of(stack: Stack) -> redis.Redis:
    return redis.Redis.from_url(stack.setting("redis_url"), decode_responses=True)


def test_workers_of_every_kind_do_their_work_by_accounts_of_few_rights(
    stack: Stack, far: Path, machine: Machine, tmp_path: Path
) -> None:
    """The stack's own evaluation and reporting workers rest, so that those that have joined do all of the work."""
    own = [stack.pid_of(name) for name in ("evaluation", "reporting")]
    for pid in own:
        os.kill(pid, signal.SIGSTOP)
    workers = []
    try:
        for kind in ("evaluation", "reporting"):
            home = tmp_path / kind / "home"
            home.mkdir(parents=True)
            token = token_of(stack, tmp_path / kind, kind=kind)
            workers.append(start(stack, machine, home, token, kind=kind))
        ended = stack.wait(submit(stack, 20).id, timeout_s=2 * PATIENCE_S)
        assert ended.state == "SUCCEEDED", stack.logs() + log_of(far)
        assert stack.client.report(ended.id)
        # Those of revoked accounts, which may not even sign in, are of other tests.
        denied = [entry for entry in redis_of(stack).acl_log() if entry["reason"] != "auth"]
        assert not denied, denied
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.wait(PATIENCE_S)
        for pid in own:
            os.kill(pid, signal.SIGCONT)


def test_revoking_the_token_ends_the_worker_and_its_job_goes_on_elsewhere(
    stack: Stack, far: Path, machine: Machine, tmp_path: Path
) -> None:
    """`far` rests, so that the worker whose token is revoked has the job, and takes it over afterwards."""
    resting = machine.pids()
    for pid in resting:
        os.kill(pid, signal.SIGSTOP)
    try:
        token = token_of(stack, tmp_path, kind="inference")
        process = start(stack, machine, tmp_path / "home", token, name="guest")
        run = submit(stack, SAMPLES)
        stack.wait_done(run.id, 40, timeout_s=PATIENCE_S)
        stack.client.revoke_join_token(token.read_text().partition("_")[0])
        code = process.wait(PATIENCE_S)
        said = (tmp_path / "worker.log").read_text()
        assert (code, "its join token was revoked" in said, "Traceback" in said) == (7, True, False), said
    finally:
        for pid in resting:
            os.kill(pid, signal.SIGCONT)
    ended = stack.wait_without_pauses(run.id)
    assert ended.state == "SUCCEEDED", stack.logs() + log_of(far)
    assert stack.rows(run.id) == SAMPLES
    audit(stack)


def test_a_machine_that_is_cut_off_comes_back_and_no_sample_is_lost_or_doubled(
    stack: Stack, far: Path, machine: Machine
) -> None:
    run = submit(stack, SAMPLES)
    stack.wait_done(run.id, 40, timeout_s=PATIENCE_S)
    machine.cut_off()
    try:
        reaped = "SELECT count(*) FROM job WHERE run_id = %s AND kind = 'GENERATE' AND state <> 'RUNNING'"
        until(lambda: stack.query(reaped, run.id) != [(0,)], "the end of the lease", PATIENCE_S)
        before = stack.rows(run.id)
        assert before < SAMPLES
    finally:
        machine.connect()
    ended = stack.wait_without_pauses(run.id)
    assert ended.state == "SUCCEEDED", stack.logs() + log_of(far)
    assert stack.rows(run.id) == SAMPLES
    audit(stack)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"--token-file": "/dev/null"}, "needs a token"),
        ({"--ca-file": ""}, "not trusted"),
        ({"--server": "https://10.231.255.254:1"}, "does not answer"),
        ({"--server": "http://10.231.255.254:1"}, "clear text"),
    ],
    ids=["no token", "no authority", "nobody there", "no TLS"],
)
def test_a_worker_that_cannot_join_says_why_and_ends(
    stack: Stack, machine: Machine, tmp_path: Path, changed: dict[str, str], part: str
) -> None:
    token = token_of(stack, tmp_path)
    if "--ca-file" in changed:
        others = Certificates(tmp_path / "others")
        others.prepare({"localhost"})
        changed = {"--ca-file": str(others.ca_file)}
    process = start(stack, machine, tmp_path / "home", token, **changed)
    code = process.wait(PATIENCE_S)
    said = (tmp_path / "worker.log").read_text()
    assert (code in {2, 3}, part in said, "Traceback" in said) == (True, True, False), said
    assert not (tmp_path / "home" / "run" / "settings.json").exists()
