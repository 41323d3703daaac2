"""The profiles of compose.yaml, really started: TLS by a proxy, results in S3, Prometheus, a worker for each GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.composed import ROOT, Composed, built, composed, free_port
from tests.containers.room import need
from tests.support.nvml import fake_driver
from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.local.certificates import Certificates

pytestmark = pytest.mark.timeout(1500)  # the first test builds the images

BUCKET = "s3://vlmhyperbench/results"
CPU_PROFILES = "tls,s3"  # `vlmhyperbench compose` adds that of the machine
GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
RUN = ("run", "--model", "tiny-doc-vlm", "--task", "document-qa", "--limit", "20")


@pytest.fixture(scope="module")
def stack() -> Iterator[Composed]:
    need("docker")
    variables = {
        "COMPOSE_PROFILES": CPU_PROFILES,
        "VLMHB_STORAGE_URL": BUCKET,
        "VLMHB_TLS_ADDRESS": "127.0.0.1",
        "VLMHB_TLS_PORT": str(free_port()),
        "VLMHB_PROXY_IMAGE": built("caddy"),
        "VLMHB_S3_IMAGE": built("s3"),
        "VLMHB_PROMETHEUS_IMAGE": built("prometheus"),
    }
    settings = {"VLMHB_STORAGE_URL": BUCKET, "VLMHB_STORAGE_S3__ENDPOINT_URL": "http://s3:9000"}
    with composed(variables=variables, settings=settings) as started:
        started.up("prometheus")
        yield started


def https(stack: Composed, ca_file: Path) -> dict[str, str]:
    """Return the variables of a user who reaches the stack by the proxy."""
    return {
        "VLMHB_API_URL": f"https://localhost:{stack.variables['VLMHB_TLS_PORT']}",
        "VLMHB_API_CA_FILE": str(ca_file),
    }


def test_a_run_by_tls_is_followed_to_its_report_in_the_bucket(stack: Composed, tmp_path: Path) -> None:
    root = "/data/caddy/pki/authorities/local/root.crt"
    read = ("exec", "-T", "proxy", "cat", root)
    until(lambda: "BEGIN CERT" in stack.compose(*read, is_checked=False), "an authority", PATIENCE_S, stack.logs)
    (tmp_path / "ca.pem").write_text(stack.compose(*read))
    by_tls = https(stack, tmp_path / "ca.pem")
    until(lambda: stack.cli("ls", "runs", "--json", **by_tls).returncode == 0, "answer by TLS", PATIENCE_S)
    run = stack.cli(*RUN, "--json", **by_tls)  # it follows the run by a WebSocket, through the proxy too
    assert run.returncode == 0, run.stderr
    run_id = json.loads(run.stdout.splitlines()[-1])["data"]["id"]
    report = stack.cli("report", run_id, "--out", str(tmp_path / "report"), **by_tls)
    assert report.returncode == 0, report.stderr
    assert b"tiny-doc-vlm" in (tmp_path / "report" / "report.html").read_bytes()
    keys = {key for (key,) in stack.query("SELECT storage_key FROM artifact")}
    stored = stack.compose("exec", "-T", "s3", "find", "/data/vlmhyperbench/results", "-type", "f").split()
    assert keys
    assert keys <= {name.removeprefix("/data/vlmhyperbench/results/") for name in stored}
    refused = stack.cli("ls", "runs", **{**by_tls, "VLMHB_API_CA_FILE": ""})
    assert refused.returncode != 0
    assert "certificate" in refused.stderr


def test_the_proxy_takes_a_certificate_of_ones_own(stack: Composed, tmp_path: Path) -> None:
    own = Certificates(tmp_path)
    own.prepare({"localhost"})
    for name, file in (("cert.pem", own.cert_file), ("key.pem", own.key_file)):
        (stack.folder / ".compose" / "tls" / name).write_bytes(file.read_bytes())
    stack.write_variables(VLMHB_TLS="/tls/cert.pem /tls/key.pem")
    try:
        stack.up("--no-deps", "proxy")
        by_tls = https(stack, own.ca_file)
        until(lambda: stack.cli("ls", "runs", **by_tls).returncode == 0, "answer by TLS", PATIENCE_S)
    finally:
        stack.write_variables(VLMHB_TLS="internal")
        stack.up("--no-deps", "proxy")


def prometheus(stack: Composed, path: str) -> Any:
    """Ask the Prometheus of the stack, from a container that is on its network."""
    return json.loads(stack.compose("exec", "-T", "api", "python", "-c", GET, f"http://prometheus:9090/api/v1/{path}"))[
        "data"
    ]


def test_prometheus_reads_every_process_and_knows_the_rules(stack: Composed) -> None:
    expected = {"api": 1, "scheduler": 2, "inference": 1, "eval-worker": 1, "reporter": 1}

    def are_all_up() -> bool:
        targets = prometheus(stack, "targets")["activeTargets"]
        up = [target["labels"] for target in targets if target["health"] == "up"]
        counts = {service: sum(labels.get("service") == service for labels in up) for service in expected}
        return len(up) == len(targets) and counts == expected and any(labels["job"] == "platform" for labels in up)

    until(are_all_up, "all targets", PATIENCE_S)
    groups = prometheus(stack, "rules")["groups"]
    named = yaml.safe_load((ROOT / "deploy/monitoring/rules.yml").read_text())["groups"]
    assert {rule["name"] for group in groups for rule in group["rules"]} == {
        rule.get("alert") or rule["record"] for group in named for rule in group["rules"]
    }
    until(
        lambda: {r["health"] for g in prometheus(stack, "rules")["groups"] for r in g["rules"]} == {"ok"},
        "evaluation of all rules",
        PATIENCE_S,
    )
    (live,) = prometheus(stack, "query?query=count(up==1)")["result"]
    assert int(live["value"][1]) == sum(expected.values()) + 1


def test_each_gpu_has_a_worker_that_needs_the_runtime_of_nvidia(stack: Composed, tmp_path: Path) -> None:
    """The driver is a library of the test, so a worker that is started without Docker's own devices finds its GPU."""
    driver = fake_driver(tmp_path, gpus=2)
    tmp_path.chmod(0o755)
    try:
        code, said = stack.prepare(LD_LIBRARY_PATH=str(driver.folder))
        failed = [check["code"] for check in said["data"]["checks"] if not check["is_ok"]]
        assert (code, said["data"]["profiles"], failed) == (3, f"gpu,{CPU_PROFILES}", ["no_toolkit"])
        override = yaml.safe_load((stack.folder / "compose.override.yaml").read_text())
        assert list(override["services"]) == ["inference-gpu-0", "inference-gpu-1"]
        refused = stack.compose("up", "--detach", "--no-deps", *override["services"], is_checked=False)
        assert "could not select device driver" in refused

        without = {
            "deploy": {"resources": {"reservations": {"devices": []}}},
            "environment": {"LD_LIBRARY_PATH": str(tmp_path)},
            "volumes": [f"{tmp_path}:{tmp_path}:ro"],
        }
        text = yaml.safe_dump({"services": dict.fromkeys(override["services"], without)})
        (stack.folder / "no-runtime.yaml").write_text(text.replace("devices:", "devices: !override"))
        files = ("-f", "compose.yaml", "-f", "compose.override.yaml", "-f", "no-runtime.yaml")
        stack.compose(*files, "up", "--detach", "--no-deps", "--pull", "never", *override["services"])
        statement = (
            "SELECT w.name, d.uuid FROM worker w JOIN device d ON d.worker_id = w.id "
            "WHERE w.state = 'LIVE' AND d.kind = 'gpu' ORDER BY 1"
        )
        expected = [("gpu-0", driver.gpus[0]), ("gpu-1", driver.gpus[1])]
        until(lambda: stack.query(statement) == expected, "both workers", PATIENCE_S, last=lambda: stack.logs()[-3000:])
        stack.compose(*files, "rm", "--force", "--stop", *override["services"])
    finally:
        assert stack.prepare()[0] == 0
