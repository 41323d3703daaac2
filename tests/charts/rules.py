"""The house's rules for what runs in a cluster, which no schema states; each yields what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.charts.rendering import Manifest, containers, pods

Rule = Callable[[Sequence[Manifest]], Iterator[str]]

MOUNTED_BY_KIND = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "projected"}
"""Kinds of volumes that the restricted level of pod security permits, and the chart uses."""


def limits(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield containers without limits of processors and memory, or with requests above them."""
    for name, pod in pods(manifests):
        for container in containers(pod):
            if not {"cpu", "memory"} <= container.get("resources", {}).get("limits", {}).keys():
                yield f"{name}/{container['name']}"


def rights(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield containers that do not keep to the restricted level of pod security, or write to their root."""
    for name, pod in pods(manifests):
        spec, own = pod["spec"], pod["spec"].get("securityContext", {})
        is_restricted = (
            own.get("runAsNonRoot") is True
            and own.get("runAsUser", 0) > 0
            and own.get("seccompProfile", {}).get("type") == "RuntimeDefault"
            and not any(spec.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC"))
            and all((volume.keys() - {"name"}) <= MOUNTED_BY_KIND for volume in spec.get("volumes", []))
        )
        for container in containers(pod):
            context = container.get("securityContext", {})
            if not is_restricted or context != {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }:
                yield f"{name}/{container['name']}"


def cluster(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield pods that get a token of the cluster, or variables of its services."""
    for name, pod in pods(manifests):
        if pod["spec"].get("automountServiceAccountToken") is not False:
            yield f"{name}: token"
        if pod["spec"].get("enableServiceLinks") is not False:
            yield f"{name}: links"


def probes(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield containers that run on and on without a liveness probe, or with one of a port that they do not have."""
    for manifest in manifests:
        for name, pod in pods([manifest]):
            for container in pod["spec"]["containers"] if manifest["kind"] != "Job" else []:
                ports = {port["name"] for port in container.get("ports", [])}
                for kind in ("startupProbe", "livenessProbe"):
                    probe = container.get(kind, {}).get("httpGet", {})
                    if probe.get("path") != "/healthz" or probe.get("port") not in ports:
                        yield f"{name}/{container['name']}: {kind}"


def selectors(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield what selects no pod of the release, and services whose port no selected container has."""
    labelled = [pod for _, pod in pods(manifests)]
    for manifest in manifests:
        spec = manifest.get("spec", {})
        wanted = {
            "Service": spec.get("selector"),
            "NetworkPolicy": spec.get("podSelector", {}).get("matchLabels") if "podSelector" in spec else None,
            "PodDisruptionBudget": (spec.get("selector") or {}).get("matchLabels"),
        }.get(manifest["kind"])
        if wanted is None:
            continue
        chosen = [pod for pod in labelled if wanted.items() <= pod["metadata"]["labels"].items()]
        if not chosen:
            yield f"{manifest['kind']}/{manifest['metadata']['name']}"
        for port in spec.get("ports", []) if manifest["kind"] == "Service" else []:
            if not all(port["targetPort"] in _ports(pod) for pod in chosen):
                yield f"{manifest['metadata']['name']}: port {port['targetPort']}"


def mounts(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield mounts of volumes that the pod does not have, and volumes that no container mounts."""
    for manifest in manifests:
        claims = {claim["metadata"]["name"] for claim in manifest.get("spec", {}).get("volumeClaimTemplates", [])}
        for name, pod in pods([manifest]):
            volumes = claims | {volume["name"] for volume in pod["spec"].get("volumes", [])}
            mounted = {mount["name"] for container in containers(pod) for mount in container.get("volumeMounts", [])}
            yield from (f"{name}: {volume}" for volume in sorted(volumes ^ mounted))


def fences(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield pods for which not both directions of the network are closed by default."""
    closed = [
        manifest["spec"]["podSelector"]["matchLabels"]
        for manifest in manifests
        if manifest["kind"] == "NetworkPolicy"
        and set(manifest["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        and not manifest["spec"].keys() & {"ingress", "egress"}
    ]
    for name, pod in pods(manifests):
        if not any(labels.items() <= pod["metadata"]["labels"].items() for labels in closed):
            yield name


def _ports(pod: Manifest) -> set[str]:
    return {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", [])}


RULES: tuple[Rule, ...] = (limits, rights, cluster, probes, selectors, mounts, fences)
