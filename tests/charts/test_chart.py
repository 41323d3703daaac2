"""The Helm chart: rendered by helm itself, valid by the schemas of Kubernetes and KEDA, and by the house's rules."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.charts.rendering import CHART, TOOLS, VALUES, Manifest, helm, render, template
from tests.charts.rules import RULES, Rule, cluster, fences, limits, mounts, probes, rights, selectors

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = ("1.29", "1.34", "1.37")
"""The oldest version that Chart.yaml permits, one in the middle, and the newest whose schemas there are."""
THEIRS = {
    "keda.sh/v1alpha1": json.loads((Path(__file__).parent / "keda.schema.json").read_text()),
    "monitoring.coreos.com/v1": json.loads((Path(__file__).parent / "prometheus_operator.schema.json").read_text()),
}
"""Schemas of objects that are not of Kubernetes itself, by their version."""


@pytest.mark.parametrize("values", VALUES)
def test_helm_finds_nothing_wrong(values: str) -> None:
    linted = helm("lint", "--strict", str(CHART), "--values", str(VALUES[values]))
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("values", VALUES)
def test_every_object_is_valid_for_its_schema(values: str, tmp_path: Path) -> None:
    manifests = render(values)
    theirs = [manifest for manifest in manifests if manifest["apiVersion"] in THEIRS]
    for manifest in theirs:
        jsonschema.validate(manifest, THEIRS[manifest["apiVersion"]])
    objects = tmp_path / "objects.yaml"
    ours = [manifest for manifest in manifests if manifest not in theirs]
    objects.write_text(yaml.safe_dump_all(ours))
    printed = _validate(objects)
    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert printed.stdout.count(" passed for resource ") == len(ours) * len(KUBERNETES), printed.stdout


def _validate(objects: Path) -> subprocess.CompletedProcess[str]:
    versions = [word for version in KUBERNETES for word in ("-k", version)]
    return subprocess.run(
        [TOOLS / "kubernetes-validate", "--strict", *versions, str(objects)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unknown_field_of_an_object_is_noticed(tmp_path: Path) -> None:
    [api] = [
        manifest for manifest in render() if manifest["kind"] == "Deployment" and "api" in str(manifest["metadata"])
    ]
    api["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump(api))
    assert _validate(tmp_path / "objects.yaml").returncode != 0


def test_keda_s_objects_are_there_only_where_something_scales() -> None:
    def kinds(values: str) -> list[str]:
        return sorted(item["kind"] for item in render(values) if item["apiVersion"].startswith("keda.sh/"))

    assert kinds("cpu") == []
    assert kinds("gpu") == ["ScaledObject"] * 3 + ["TriggerAuthentication"]


def test_the_prometheus_operator_reads_what_prometheus_reads_and_has_the_same_alerts() -> None:
    objects = {item["kind"]: item for item in render("gpu") if item["apiVersion"].startswith("monitoring.coreos.com/")}
    assert objects["PrometheusRule"]["spec"] == yaml.safe_load((DEPLOY / "monitoring" / "rules.yml").read_text())
    [platform] = objects["ServiceMonitor"]["spec"]["endpoints"]
    assert (platform["scheme"], platform["authorization"]["credentials"]) == (
        "https",
        {"name": "keys", "key": "metrics-key"},
    )
    [service] = [item for item in render("gpu") if item["kind"] == "Service" and "-api" in item["metadata"]["name"]]
    chosen = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= service["metadata"]["labels"].items()
    assert platform["port"] in {port["name"] for port in service["spec"]["ports"]}
    [processes] = objects["PodMonitor"]["spec"]["podMetricsEndpoints"]
    chosen = objects["PodMonitor"]["spec"]["selector"]["matchLabels"]
    pods = [item["spec"]["template"] for item in render("gpu") if item["kind"] in {"Deployment", "StatefulSet"}]
    for pod in pods:
        assert chosen.items() <= pod["metadata"]["labels"].items()
        ports = [port["name"] for container in pod["spec"]["containers"] for port in container["ports"]]
        assert processes["port"] in ports
    assert all(item["metadata"]["labels"]["release"] == "prometheus" for item in objects.values())
    assert not [item for item in render("cpu") if item["apiVersion"].startswith("monitoring.coreos.com/")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("values", VALUES)
def test_every_pod_keeps_the_house_s_rules(values: str, rule: Rule) -> None:
    assert list(rule(render(values))) == []


def _spoil_limits(pod: Manifest) -> None:
    del pod["spec"]["containers"][0]["resources"]["limits"]["memory"]


def _spoil_rights(pod: Manifest) -> None:
    pod["spec"]["securityContext"]["runAsUser"] = 0


def _spoil_cluster(pod: Manifest) -> None:
    del pod["spec"]["enableServiceLinks"]


def _spoil_probes(pod: Manifest) -> None:
    pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] = "api2"


def _spoil_selectors(pod: Manifest) -> None:
    pod["metadata"]["labels"]["app.kubernetes.io/component"] = "other"


def _spoil_mounts(pod: Manifest) -> None:
    pod["spec"]["volumes"].pop()


def _spoil_fences(pod: Manifest) -> None:
    pod["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        (limits, _spoil_limits),
        (rights, _spoil_rights),
        (cluster, _spoil_cluster),
        (probes, _spoil_probes),
        (selectors, _spoil_selectors),
        (mounts, _spoil_mounts),
        (fences, _spoil_fences),
    ],
    ids=lambda given: given.__name__,
)
def test_each_rule_notices_what_breaks_it(rule: Rule, spoil: Callable[[Manifest], None]) -> None:
    manifests = copy.deepcopy(render())
    [api] = [item for item in manifests if item["kind"] == "Deployment" and item["metadata"]["name"].endswith("-api")]
    spoil(api["spec"]["template"])
    assert list(rule(manifests))


def test_a_worker_gets_its_gpus_and_nothing_else_of_them() -> None:
    asked = {
        item["metadata"]["name"].removeprefix("demo-vlmhyperbench-inference-"): item["spec"]["template"]["spec"][
            "containers"
        ][0]["resources"]["limits"]
        for item in render("gpu")
        if item["kind"] == "StatefulSet" and "inference" in item["metadata"]["name"]
    }
    assert {pool: {name: text for name, text in limits.items() if "/" in name} for pool, limits in asked.items()} == {
        "h100": {"nvidia.com/gpu": "1"},
        "gang": {"nvidia.com/gpu": "4"},
        "slices": {"nvidia.com/mig-1g.10gb": "1"},
    }


def test_names_stay_short_enough_for_the_labels_of_pods() -> None:
    release, pool = "a-release-whose-name-is-as-long-as-helm-permits-of-it", "a-long-pool-too"
    names = {
        (manifest["kind"], manifest["metadata"]["name"])
        for manifest in render("cpu", f"inferencePools.{pool}.gpus=1", release=release)
    }
    assert len(names) == len(render("cpu", f"inferencePools.{pool}.gpus=1"))
    assert max(len(name) for kind, name in names if kind == "StatefulSet") == 52


@pytest.mark.parametrize(
    "given",
    [
        "database.existingSecret=",
        "redis.existingSecret=",
        "keys.existingSecret=",
        "storage.url=",
        "networkPolicy.storage.to=null",
        "ingress.enabled=true",
        "settings.VLMHB_HOME=/elsewhere",
        "settings.PATH=/elsewhere",
        "storage.endpointUrl=s3.example",
        "inferencePools.cpu.gpu=1",
        "api.replicas=two",
        "evalWorker.resources.limits.memory=null",
        "registries.model=ours",
    ],
    ids=lambda given: given.partition("=")[0],
)
def test_a_wrong_value_is_refused_by_its_name(given: str, wording: Callable[..., None]) -> None:
    refused = template("cpu", given)
    assert refused.returncode != 0
    assert refused.stdout == ""
    [*_, sentence] = [line for line in refused.stderr.splitlines() if line and not line.startswith("Use --debug")]
    wording(sentence.rpartition("): ")[2].strip())  # without the line of the template
