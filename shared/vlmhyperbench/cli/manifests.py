"""Print the manifest of a run: what was really used, and where each value was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.domain.identity import ONLY_DECLARED, is_declared
from vlmhyperbench.wire.manifests import RunManifest, UsedEngine


def show_manifest(manifest: RunManifest, output: OutputFlags) -> int:
    """Print a manifest as JSON or as text; the text leaves packages and defaults out."""
    if output.json:
        emit("manifest", manifest)
        return exits.OK
    stated = {name: value for name, value in manifest.target.items() if name != "license"}
    target = ", ".join(f"{name} {value}" for name, value in stated.items() if value is not None)
    say(f"{manifest.name} ({manifest.run_id}), spec {manifest.spec_digest[:12]}")
    say(f"target: {target}")
    if "license" in manifest.target:
        say(f"licence: {manifest.target['license'] or 'unknown'}")
    for used in manifest.engines:
        _show_engine(used)
    if manifest.weights:
        files = [(file.file, file.sha256, file.is_confirmed, file.location) for file in manifest.weights]
        table(["file", "SHA-256", "stated by the engine", "location"], files)
    if manifest.recipe is not None:
        _show_recipe(manifest.recipe)
    _show_metrics(manifest.plugins.get("environments"))
    values = [
        (path, json.dumps(value.value, ensure_ascii=False), value.origin)
        for path, value in manifest.configuration.items()
        if value.origin != "default"
    ]
    table(["value", "is", "written in"], values)
    say("All other values are defaults; --json prints them, and all packages.")
    return exits.OK


def _show_recipe(recipe: Mapping[str, Any]) -> None:
    steps = ", ".join(f"{name} {value}" for name, value in recipe["steps"].items())
    tools = ", ".join(line for lines in recipe["tools"].values() for line in lines)
    say(f"made by a recipe of {recipe['source']}: {steps}; tools: {tools}")
    files = [(file["role"], file["sha256"], file["location"]) for file in recipe["inputs"]]
    table(["input", "SHA-256", "location"], files)


def _show_metrics(environments: JsonValue) -> None:
    """Show what metrics in environments of their own have pinned, and how many packages were installed."""
    for label, used in environments.items() if isinstance(environments, dict) else ():
        if not isinstance(used, dict):
            continue
        requirements, sources, packages = (used.get(name) for name in ("requirements", "sources", "packages"))
        pinned = [*map(str, requirements if isinstance(requirements, list) else ())]
        pinned += map(str, sources.values() if isinstance(sources, dict) else ())
        count = f"{len(packages)} packages" if isinstance(packages, dict) else "nothing scored yet"
        say(f"environment of the metric {label}: {', '.join(pinned)} ({count})")


def _show_engine(used: UsedEngine) -> None:
    engine, environment, machine = used.engine or {}, used.environment or {}, used.machine
    say(f"engine: {engine.get('name', 'unknown')} {engine.get('version', '')}, measured at the {used.measured_at}")
    variables = engine.get("variables")
    if isinstance(variables, dict) and variables:
        say(f"taken from the worker's environment: {', '.join(f'{name}={value}' for name, value in variables.items())}")
    if "kind" in environment:
        named = f"{environment.get('kind')} {environment.get('key')}, Python {environment.get('python_version')}"
        say(f"environment: {named}")
    for step in used.fallbacks:
        badge = "degraded: " if step.get("is_lossy") else ""
        say(f"{badge}loaded smaller to fit: {step.get('rung')} ({step.get('before')} → {step.get('after')})")
    certificate = used.certificate or {"created_at": "none"}
    say(f"certificate: {', '.join(str(certificate[name]) for name in ('created_at', 'file') if name in certificate)}")
    parts = [machine.get("cpu_model"), f"{machine.get('cpu_threads')} threads", machine.get("distribution")]
    parts += [f"kernel {machine.get('kernel')}", f"driver {machine.get('driver') or 'none'}"]
    parts += [ONLY_DECLARED] if is_declared(machine) else []
    say(f"machine: {used.host}, {', '.join(str(part) for part in parts if part)}")
