"""Render the chart with the real helm, and read what every pod of it gets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "vlmhyperbench"
TOOLS = ROOT / ".venvs" / "charts" / "bin"
VALUES = {path.stem: path for path in sorted((Path(__file__).parent / "values").glob("*.yaml"))}
NAMESPACE = "bench"

Manifest = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm."""
    return subprocess.run([TOOLS / "helm", *arguments], capture_output=True, text=True, check=False)


def template(values: str = "cpu", *sets: str, release: str = "demo") -> subprocess.CompletedProcess[str]:
    """Run `helm template` with a file of values and further `--set` values."""
    further = [word for pair in sets for word in ("--set", pair)]
    return helm("template", release, str(CHART), "--namespace", NAMESPACE, "--values", str(VALUES[values]), *further)


def render(values: str = "cpu", *sets: str, release: str = "demo") -> list[Manifest]:
    """Return the objects of a release."""
    rendered = template(values, *sets, release=release)
    assert rendered.returncode == 0, rendered.stderr
    return [manifest for manifest in yaml.safe_load_all(rendered.stdout) if manifest]


def pod_of(manifest: Manifest) -> Manifest | None:
    """Return the pod that an object makes: labels and spec; None if it makes none."""
    template = manifest.get("spec", {}).get("template")
    return template if template is not None and "spec" in template else None


def pods(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield the name and the pod of every object that makes pods."""
    for manifest in manifests:
        if (pod := pod_of(manifest)) is not None:
            yield manifest["metadata"]["name"], pod


def containers(pod: Manifest) -> list[Manifest]:
    """Return all containers of a pod, those before its start included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def environment(container: Manifest, secrets: Mapping[str, Mapping[str, str]], pod_name: str) -> dict[str, str]:
    """Return the variables of a container as kubelet sets them; a secret that does not exist is a KeyError."""
    values = {}
    for variable in container.get("env", []):
        match variable.get("valueFrom"):
            case None:
                values[variable["name"]] = variable["value"]
            case {"secretKeyRef": {"name": name, "key": key}}:
                values[variable["name"]] = secrets[name][key]
            case {"fieldRef": {"fieldPath": "metadata.name"}}:
                values[variable["name"]] = pod_name
            case other:
                raise AssertionError(f"no such source: {other}")
    return values
