"""Environments of metrics by real uv: with the platform's SDK, built once whoever asks, known by what is in them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.wheels import make_wheel
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import LocalPackage
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.environments.metric_hosts import metric_hosts_here
from vlmhyperbench.folders import content_sha256
from vlmhyperbench.metric_process import process_of
from vlmhyperbench.scoring.metrics import host_of, open_metric
from vlmhyperbench.settings import Settings

METRICS = (Path(__file__).parents[2] / "support" / "metrics_apart.py").read_text()
SPEC = MetricSpec(
    name="wilful",
    profile="v1",
    version="1.0.0",
    class_path="metrics_apart:Wilful",
    environment=VirtualenvSpec(requirements=("metrics_apart==1.0",)),
)
MEASURE = """
import json, sys
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.environments.metric_hosts import metric_hosts_here
from vlmhyperbench.scoring.metrics import host_of, open_metric
from vlmhyperbench.settings import Settings
steps = []
async def tell(step, packages):
    steps.append(step)
spec = MetricSpec.model_validate_json(sys.argv[1])
with metric_hosts_here([spec], Settings(home=sys.argv[2]), tell=tell) as hosts:
    values = open_metric(spec, host_of(spec, hosts)).measure(["a", "bb"], [["x"], ["x"]]).values
print(json.dumps([steps, values]))
"""


@pytest.fixture
def wheels(index: Path) -> Path:
    make_wheel(index, "metrics_apart", "1.0", needs=["vlmhyperbench-sdk>=0.1,<0.2"], code=METRICS)
    return index


@pytest.mark.usefixtures("wheels")
def test_two_workers_that_want_the_same_new_environment_build_it_once(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", MEASURE, SPEC.model_dump_json(), str(tmp_path / "home")]
    children = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    results = [json.loads(child.communicate()[0]) for child in children]
    assert sum("installing" in steps for steps, _ in results) == 1
    assert [values for _, values in results] == [[1.0, 2.0]] * 2


def test_a_metric_of_a_folder_is_known_by_its_content_and_ends_with_the_block(wheels: Path, tmp_path: Path) -> None:
    [wheel] = wheels.iterdir()
    package = LocalPackage(name="metrics_apart", path=str(wheel), sha256=content_sha256(wheel))
    spec = SPEC.model_copy(update={"environment": VirtualenvSpec(packages=(package,))})
    with metric_hosts_here([spec], Settings(home=tmp_path / "home")) as hosts:
        host = host_of(spec, hosts)
        assert host is not None
        assert host.packages == {
            "metrics-apart": f"1.0 (content {package.sha256})",
            "vlmhyperbench-sdk": version("vlmhyperbench-sdk"),
            "python": ".".join(map(str, sys.version_info[:3])),
        }
        metric = open_metric(spec, host)
        assert metric.distribution == "metrics_apart==1.0"
        process = process_of(host)
    assert not process.is_running


def test_nothing_is_prepared_for_metrics_without_an_environment(tmp_path: Path) -> None:
    plain = SPEC.model_copy(update={"environment": None})
    with metric_hosts_here([plain], Settings(home=tmp_path / "home")) as hosts:
        assert hosts == {}
    assert not (tmp_path / "home").exists()
