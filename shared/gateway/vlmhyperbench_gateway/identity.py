"""Collect the facts about an engine that cannot be recovered later: packages, hashes of weights, its own statements."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.logs import get_logger, process_masker
from vlmhyperbench.processes import start_child
from vlmhyperbench_gateway.errors import EngineFailed
from vlmhyperbench_gateway.transport import EngineClient
from vlmhyperbench_sdk.gateway import EngineIdentity, LoadRequest
from vlmhyperbench_sdk.jsontext import parse_json
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PROPERTIES = ("/props", "/version", "/v1/models")
"""Paths at which engines describe themselves; an engine need not have all of them."""

_MAX_WARNINGS = 10
_MAX_PROPERTIES_BYTES = 1024 * 1024
_SECONDS = 20.0
_LIST_PACKAGES = """\
import importlib.metadata as m, json, pathlib, sys
packages = {d.metadata["Name"]: d.version for d in m.distributions() if d.metadata["Name"]}
for file in pathlib.Path(sys.prefix, "conda-meta").glob("*.json"):
    p = json.loads(file.read_text(encoding="utf-8"))
    packages["conda:" + p["name"]] = p["version"] + "=" + p["build"]
print(json.dumps(packages))
"""


async def hash_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each file of a model, by its role."""
    return {role: await asyncio.to_thread(_sha256, Path(path)) for role, path in files.items()}


async def list_packages(python: str | None) -> dict[str, str]:
    """Ask a Python interpreter which distributions its environment has, and which packages of conda (`conda:NAME`).

    An engine without an interpreter has none.

    Raises:
        EngineFailed: the interpreter does not run.
    """
    if python is None:
        return {}
    try:
        async with (
            asyncio.timeout(_SECONDS),
            await start_child(
                [python, "-I", "-c", _LIST_PACKAGES],
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            ) as child,
        ):
            listed = json.loads(await child.stdout.read())
    except (TimeoutError, OSError, ValueError) as error:
        raise EngineFailed(f"The engine's interpreter {python} does not run: {error}.") from error
    return {str(name): str(version) for name, version in sorted(listed.items())}


async def ask_properties(client: EngineClient) -> dict[str, JsonValue]:
    """Ask the engine to describe itself; answers are masked and bounded in size, and failures are left out."""
    answers = {path: await _ask(client, path) for path in PROPERTIES}
    return {path: answer for path, answer in answers.items() if answer is not None}


def identify_launched(
    launch: EngineLaunch,
    *,
    pid: int,
    packages: Mapping[str, str],
    weights_sha256: Mapping[str, str],
    properties: Mapping[str, JsonValue],
    environment: JsonObject,
    variables: Mapping[str, str],
) -> EngineIdentity:
    """Return the identity of an engine that this gateway started."""
    named = {name.lower().replace("_", "-"): version for name, version in packages.items()}
    installed = named.get((launch.distribution or launch.engine).lower().replace("_", "-"))
    version = installed or _stated_version(properties) or "unknown"
    warnings = (*launch.warnings, *_untried(launch, version), *_stated_warnings(properties))
    for warning in warnings:
        get_logger(__name__).warning("engine", engine=launch.engine, warning=warning)
    return EngineIdentity(
        name=launch.engine,
        version=version,
        argv=tuple(process_masker.mask(word) for word in launch.argv),
        pid=pid,
        packages=packages,
        weights_sha256=weights_sha256,
        properties=properties,
        environment=environment,
        warnings=warnings,
        variables=variables,
    )


def identify_remote(engine: str, load: LoadRequest, properties: Mapping[str, JsonValue]) -> EngineIdentity:
    """Return the identity of an engine that somebody else runs, which is only what it states."""
    return EngineIdentity(
        name=engine or load.backend_class,
        version=_stated_version(properties) or "unknown",
        argv=(),
        properties=properties,
    )


def _untried(launch: EngineLaunch, version: str) -> tuple[str, ...]:
    """Return a warning if the adapter was not tried with this version of its engine."""
    if not launch.tried or any(f"{version}.".startswith(f"{tried}.") for tried in launch.tried):
        return ()
    tried = ", ".join(launch.tried)
    problem = f"The adapter was tried with {launch.engine} {tried}, but not with {version}."
    return (f"{problem} Install such a version, or check the answers.",)


def _stated_warnings(properties: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the warnings that an engine's `/props` states; servers of this project have that field."""
    props = properties.get("/props")
    stated = props.get("warnings") if isinstance(props, Mapping) else None
    return tuple(map(str, stated[:_MAX_WARNINGS])) if isinstance(stated, list) else ()


def _stated_version(properties: Mapping[str, JsonValue]) -> str | None:
    stated = properties.get("/version")
    version = stated.get("version") if isinstance(stated, Mapping) else None
    return version if isinstance(version, str) else None


async def _ask(client: EngineClient, path: str) -> JsonValue:
    try:
        async with asyncio.timeout(_SECONDS), client.request("GET", path) as response:
            body = await response.read(_MAX_PROPERTIES_BYTES)
        text = process_masker.mask(body.decode("utf-8", "replace"))
        return parse_json(text) if response.status == 200 else None
    except (EngineFailed, InvalidInput, TimeoutError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
