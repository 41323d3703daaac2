"""The stack of compose.yaml, built and started for real: an experiment, a killed worker, networks, secrets, its end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.containers.composed import IMAGES, SERVICES, Composed, composed, docker, left_of
from tests.containers.room import need, other_machine
from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import until

pytestmark = pytest.mark.timeout(1500)  # the first test builds the images

WITHOUT_A_WAY_OUT = "inference-cpu"
WRITE = """
import os
print(os.getuid())
for path in ("/opt/x", "/usr/x", "/etc/x"):
    try:
        open(path, "w").close()
        print("written")
    except OSError as error:
        print(error.errno)
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Composed]:
    need("docker")
    with composed() as started:
        until(lambda: started.client.runs.list(limit=1) is not None, "answer of the API", PATIENCE_S)
        yield started


def test_an_experiment_survives_the_end_of_its_inference_worker(stack: Composed) -> None:
    experiment = stack.client.experiments.create("demo")
    ours = f"SELECT id FROM run WHERE experiment_id = '{experiment.id}'"
    answers = f"SELECT count(*) FROM fact WHERE run_id IN ({ours})"
    until(lambda: int(stack.query(answers)[0][0]) >= 64, "64 answers", PATIENCE_S)
    (before,) = stack.containers(WITHOUT_A_WAY_OUT)
    os.kill(before["State"]["Pid"], signal.SIGKILL)
    until(lambda: stack.containers(WITHOUT_A_WAY_OUT)[0]["RestartCount"] >= 1, "restart of the worker", PATIENCE_S)
    ended = until(
        lambda: (found := stack.client.experiments.get(experiment.id)).state != "OPEN" and found, "end", 2 * PATIENCE_S
    )
    assert ended.state == "DONE"
    rows = stack.client.report(experiment.id).headline["rows"]
    assert [row["state"] for row in rows] == ["SUCCEEDED", "SUCCEEDED"]
    assert all(row["ok"] == row["requested"] == 1226 for row in rows)
    interrupted = stack.query(
        "SELECT count(DISTINCT f.claim_id) FROM fact f JOIN phase p ON p.run_id = f.run_id AND p.no = f.phase "
        f"WHERE p.kind NOT IN ('warmup', 'baseline') AND f.run_id IN ({ours}) GROUP BY f.run_id"
    )
    assert max(int(claims) for (claims,) in interrupted) >= 2, "the worker was killed in the middle of a run"
    audit(stack)


def test_evaluation_workers_are_added_and_removed(stack: Composed) -> None:
    for count in (4, 1):
        stack.up("--scale", f"eval-worker={count}", "--no-recreate")
        assert len(stack.containers("eval-worker")) == count

        def live(wanted: int = count) -> bool:
            workers = [worker for worker in stack.client.workers().items if worker.kind == "evaluation"]
            return len([worker for worker in workers if worker.state == "LIVE"]) == wanted

        until(live, f"{count} live evaluation workers", PATIENCE_S)


def test_engines_have_no_way_out_and_other_services_have(stack: Composed) -> None:
    probe = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    with other_machine() as (host, port):
        reached = {
            service: "Error"
            not in stack.compose("exec", "-T", service, "python", "-c", probe, host, str(port), is_checked=False)
            for service in (WITHOUT_A_WAY_OUT, "eval-worker", "scheduler")
        }
    assert reached == {WITHOUT_A_WAY_OUT: False, "eval-worker": True, "scheduler": False}


def test_services_are_not_root_and_cannot_write_their_image(stack: Composed) -> None:
    for service in ("api", "scheduler", "eval-worker", "reporter", WITHOUT_A_WAY_OUT):
        said = stack.compose("exec", "-T", service, "python", "-c", WRITE).split()
        assert said[0] == "10001"
        assert "written" not in said
        for container in stack.containers(service):
            host = container["HostConfig"]
            assert (host["ReadonlyRootfs"], host["CapDrop"], host["SecurityOpt"]) == (
                True,
                ["ALL"],
                ["no-new-privileges:true"],
            )
            assert host["Memory"] > 0
            assert host["PidsLimit"] > 0


def test_the_tools_reach_the_api_and_install_on_the_disk_of_the_home(stack: Composed) -> None:
    said = stack.compose("run", "--rm", "tools", "ls", "runs", "--json").splitlines()
    assert isinstance(json.loads(said[-1])["data"], list)
    asked = 'cache=$(uv cache dir); mkdir -p "$cache"; echo "$cache"; stat --format %m "$cache"; touch /tmp/written'
    file_system = "stat --file-system --format %T /tmp"
    words = ("run", "--rm", "--entrypoint", "sh", "tools", "-ec", f"{asked}; {file_system}")
    cache, place, kind_of_tmp = stack.compose(*words).split()
    assert (cache, place) == ("/var/lib/vlmhyperbench/cache/uv", "/var/lib/vlmhyperbench")
    assert kind_of_tmp != "tmpfs"


def test_secrets_are_in_no_environment_and_no_log(stack: Composed) -> None:
    folder = stack.folder / ".compose"
    names = ("postgres_password", "key_pepper", "api_key", "metrics_key")
    secrets = [(folder / name).read_text().strip() for name in names]
    secrets.append((folder / "worker_database_url").read_text().rpartition(":")[0].partition("@")[0].rpartition(":")[2])
    secrets.append((folder / "redis_url").read_text().partition("://:")[2].partition("@")[0])
    ids = stack.compose("ps", "--all", "--quiet").split()
    shown = docker("inspect", *ids) + stack.logs() + stack.compose("exec", "-T", "api", "env")
    assert [secret for secret in secrets if secret in shown] == []
    assert oct((stack.folder / ".compose").stat().st_mode & 0o777) == "0o700"


MEASURING = {"vlmhb_database_url", "vlmhb_redis_url", "vlmhb_storage_s3"}
READ_KEYS = """
from sqlalchemy import text
from vlmhyperbench.db.connecting import connected
from vlmhyperbench.settings import Settings
with connected(Settings.load().database_url.get_secret_value(), failure="No connection") as connection:
    print("keys", connection.scalar(text("SELECT count(*) FROM api_key")))
"""


def test_who_runs_code_of_others_has_neither_the_pepper_nor_the_owner_of_the_database(stack: Composed) -> None:
    for service in ("eval-worker", WITHOUT_A_WAY_OUT):
        assert set(stack.compose("exec", "-T", service, "ls", "/run/secrets").split()) == MEASURING
        said = stack.compose("exec", "-T", service, "python", "-c", READ_KEYS, is_checked=False)
        assert "permission denied for table api_key" in said, said
    assert "keys" in stack.compose("exec", "-T", "api", "python", "-c", READ_KEYS)


def test_the_health_check_of_the_api_asks_it(stack: Composed) -> None:
    until(lambda: stack.containers("api")[0]["State"]["Health"]["Status"] == "healthy", "health of the API", PATIENCE_S)
    elsewhere = ("exec", "-T", "-e", "VLMHB_API_PORT=9", "api", "python3", "/usr/local/lib/vlmhyperbench/healthy.py")
    assert "Connection refused" in stack.compose(*elsewhere, is_checked=False)


@pytest.mark.parametrize("service", ["scheduler", "eval-worker", "reporter", WITHOUT_A_WAY_OUT])
def test_every_service_says_that_it_is_well(stack: Composed, service: str) -> None:
    until(
        lambda: {container["State"]["Health"]["Status"] for container in stack.containers(service)} == {"healthy"},
        f"health of {service}",
        PATIENCE_S,
    )


def test_a_wrong_password_is_named_and_starts_nothing(stack: Composed) -> None:
    url = stack.folder / ".compose" / "database_url"
    right = url.read_text()
    url.unlink()
    url.write_text(right.replace("://vlmhyperbench:", "://vlmhyperbench:x"))
    url.chmod(0o444)
    try:
        said = stack.compose("run", "--rm", "--no-deps", "migrate", is_checked=False)
    finally:
        url.unlink()
        url.write_text(right)
        url.chmod(0o444)
    assert "password authentication failed" in said
    assert "Traceback" not in said


def test_nothing_is_left_of_a_stack_that_was_removed() -> None:
    need("docker")
    with composed(["migrate"]) as started:
        project = started.project
        assert left_of(project).keys() == {"containers", "volumes", "networks"}
    assert left_of(project) == {}


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_its_parts_and_nothing_to_build_with(stack: Composed, service: str) -> None:
    image = f"{IMAGES}-{service}:latest"
    run = ("run", "--rm", "--network", "none", "--entrypoint")
    (facts,) = json.loads(docker("inspect", image))
    assert facts["Config"]["User"] == "10001:10001"
    assert facts["Config"]["Healthcheck"]["Test"][0] == "CMD"
    parts = json.loads(docker(*run, "cat", image, "/opt/vlmhyperbench/sbom.json"))
    names = {part["name"].lower() for part in parts["components"]}
    assert parts["bomFormat"] == "CycloneDX"
    assert {"vlmhyperbench", f"vlmhyperbench-{service}", "sqlalchemy"} <= names
    assert names.isdisjoint({"torch", "transformers", "vllm", "pip", "pytest"})
    assert docker(*run, "sh", image, "-c", "command -v pip gcc cc make || true") == ""
    if service == "api":
        assert facts["Size"] <= 400_000_000
