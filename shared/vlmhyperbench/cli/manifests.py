"""Print the manifest of a run: what was really used, and where each value was written."""

from __future__ import annotations

import json

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.wire.manifests import RunManifest, UsedEngine


def show_manifest(manifest: RunManifest, output: OutputFlags) -> int:
    """Print a manifest as JSON or as text; the text leaves packages and defaults out."""
    if output.json:
        emit("manifest", manifest)
        return exits.OK
    target = ", ".join(f"{name} {value}" for name, value in manifest.target.items() if value is not None)
    say(f"{manifest.name} ({manifest.run_id}), spec {manifest.spec_digest[:12]}")
    say(f"target: {target}")
    for used in manifest.engines:
        _show_engine(used)
    if manifest.weights:
        files = [(file.file, file.sha256, file.is_confirmed, file.location) for file in manifest.weights]
        table(["file", "SHA-256", "stated by the engine", "location"], files)
    values = [
        (path, json.dumps(value.value, ensure_ascii=False), value.origin)
        for path, value in manifest.configuration.items()
        if value.origin != "default"
    ]
    table(["value", "is", "written in"], values)
    say("All other values are defaults; --json prints them, and all packages.")
    return exits.OK


def _show_engine(used: UsedEngine) -> None:
    engine, environment, machine = used.engine or {}, used.environment or {}, used.machine
    say(f"engine: {engine.get('name', 'unknown')} {engine.get('version', '')}, measured at the {used.measured_at}")
    variables = engine.get("variables")
    if isinstance(variables, dict) and variables:
        say(f"taken from the worker's environment: {', '.join(f'{name}={value}' for name, value in variables.items())}")
    if environment:
        named = f"{environment.get('kind')} {environment.get('key')}, Python {environment.get('python_version')}"
        say(f"environment: {named}")
    certificate = used.certificate or {"created_at": "none"}
    say(f"certificate: {', '.join(str(certificate[name]) for name in ('created_at', 'file') if name in certificate)}")
    parts = [machine.get("cpu_model"), f"{machine.get('cpu_threads')} threads", machine.get("distribution")]
    parts += [f"kernel {machine.get('kernel')}", f"driver {machine.get('driver') or 'none'}"]
    say(f"machine: {used.host}, {', '.join(str(part) for part in parts if part)}")
