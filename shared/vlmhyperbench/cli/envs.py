"""`envs`: list, build and remove the environments in which engines and metrics run on this machine."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.certifying import check
from vlmhyperbench.cli.groups import TARGET
from vlmhyperbench.cli.output import emit, say, table, teller
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.domain.environments import EnvironmentSpec, RentedSpec
from vlmhyperbench.environments.listing import Wanted, key_of, list_environments
from vlmhyperbench.environments.metric_hosts import OWN as SDK
from vlmhyperbench.environments.own_wheels import GATEWAY
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.rented_machines import plan_rented, rented_key
from vlmhyperbench.environments.resolving import packages_of
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.packages import pin_environments, pin_metric_environment, pin_own_environment
from vlmhyperbench.registry.pins import errors_of
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import BackendEntry, DatasetEntry, MetricEntry, ModelEntry
from vlmhyperbench.registry.targets import adapter_of
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.discovery import Group

app = App(name="envs", help="List, build, check and remove the environments of engines and metrics.")
app.command(check)

_METRICS = "metrics/"
_PLUGINS: Final[tuple[Group, ...]] = ("datasets", "prompts")
"""Kinds of entries whose plugins run in an environment of their own where their package is not installed here."""
_LIST = "`vlmhyperbench envs list` lists all."


@app.command(name="list")
def list_(*, output: OutputFlags = TEXT) -> int:
    """List environments that backends, models, metrics, datasets and prompts declare, and those of this machine.

    Args:
        output: How the output is printed.
    """
    catalogue = open_catalogue()
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    wanted = [
        *(
            declared
            for name, backend in sorted(catalogue.backends.items())
            for declared in _wanted(references, f"backends/{name}", backend.default_adapter_package, backend)
        ),
        *(
            declared
            for name, model in sorted(catalogue.models.items())
            for declared in _wanted(references, f"models/{name}", model.adapter_package, model)
        ),
        *(
            declared
            for name, metric in sorted(catalogue.metrics.items())
            for declared in _of_metric(references, name, metric)
        ),
        *(
            declared
            for kind in _PLUGINS
            for name in sorted(catalogue.of(kind))
            for declared in _of_plugin(references, kind, name)
        ),
    ]
    rows = asyncio.run(list_environments(wanted, Workshop.of(Settings.load())))
    if output.json:
        emit("environments", rows)
        return exits.OK
    columns = ["key", "kind", "state", "entries", "python", "packages", "MiB"]
    cells = [
        [
            row.key,
            row.kind,
            row.state,
            ", ".join(row.entries) or None,
            row.python,
            row.packages,
            None if row.size_bytes is None else f"{row.size_bytes / 2**20:,.0f}",
        ]
        for row in rows
    ]
    table(columns, cells, right=columns[-2:])
    return exits.OK


@app.command
def build(
    backend: str, /, *, model: Annotated[str | None, Parameter(group=TARGET)] = None, output: OutputFlags = TEXT
) -> int:
    """Build the environment of a backend's engine or of a metric, unless it is there; a run that needs it does it, too.

    For an engine on a rented machine, only what needs no machine is done.

    Args:
        backend: Name of the backend, or metrics/NAME, datasets/NAME or prompts/NAME.
        model: Model whose entry may declare an environment of its own.
        output: How the output is printed.
    """
    workshop, wanted = Workshop.of(Settings.load()), _declared(backend, model)
    started, tell = time.monotonic(), teller(output, backend)

    async def prepare(spec: EnvironmentSpec, own: tuple[str, ...]) -> dict[str, object]:
        if isinstance(spec, RentedSpec):
            made = await plan_rented(spec, workshop, tell=tell)
            return {"key": rented_key(spec, made), "packages": packages_of(made), "rented": spec.cloud}
        async with prepared(spec, workshop, tell=tell, own=own) as ready:
            return {
                "key": ready.key,
                "image": ready.image,
                "python": ready.python,
                "python_version": ready.python_version,
                "packages": dict(ready.packages),
                "seconds": round(time.monotonic() - started, 3),
            }

    async def prepare_all() -> list[dict[str, object]]:
        return [await prepare(declared.spec, declared.own) for declared in wanted]

    made = asyncio.run(prepare_all())
    if output.json:
        emit("environments", made)
        return exits.OK
    for ready in made:
        if "rented" in ready:
            say(f"The packages of {backend} are resolved. The run that needs it rents a machine.")
        else:
            say(f"The environment {ready['key']} of {backend} is ready: {ready['image'] or ready['python']}")
    return exits.OK


@app.command
def remove(
    backend: str, /, *, model: Annotated[str | None, Parameter(group=TARGET)] = None, output: OutputFlags = TEXT
) -> int:
    """Remove an environment from this machine; the next build resolves it anew. One that is in use is refused.

    Args:
        backend: Name of the backend, metrics/NAME, datasets/NAME or prompts/NAME, or the key of an environment.
        model: Model whose entry may declare an environment of its own.
        output: How the output is printed.
    """
    workshop = Workshop.of(Settings.load())
    store = workshop.store

    async def find_and_remove() -> list[str]:
        keys: list[str | None] = [backend]
        if backend not in store.list_keys():
            keys = [await key_of(wanted.spec, workshop, own=wanted.own) for wanted in _declared(backend, model)]
        known = [key for key in keys if key is not None]
        if not known:
            raise NotFound(f"The environment of {backend} is not on this machine.", cure=_LIST, code="no_environment")
        for key in known:
            await store.remove(key)
        return known

    removed = asyncio.run(find_and_remove())
    if output.json:
        emit("environment", {"key": removed[0], "keys": removed})
    else:
        for key in removed:
            say(f"The environment {key} is removed.")
    return exits.OK


def _wanted(
    references: References, entry: str, package: str | None, *entries: ModelEntry | BackendEntry
) -> list[Wanted]:
    """Return the environments that entries declare: that of the engine, and that of an adapter from a package."""
    engine, adapter = pin_environments(references, package, entries, ("environment",))
    wanted = [Wanted(entry=entry, spec=engine)] if engine is not None else []
    return [*wanted, *([Wanted(entry=entry, spec=adapter, own=GATEWAY)] if adapter is not None else [])]


def _of_metric(references: References, name: str, metric: MetricEntry) -> list[Wanted]:
    """Return the environment that a metric declares, in a list."""
    pinned = pin_metric_environment(references, metric, ("environment",))
    return [Wanted(entry=f"{_METRICS}{name}", spec=pinned, own=SDK)] if pinned is not None else []


def _of_plugin(references: References, kind: Group, name: str) -> list[Wanted]:
    """Return the environment in which a dataset or a prompt runs from its package, in a list."""
    entry = references.catalogue.get(kind, name)
    plugin = entry.type if isinstance(entry, DatasetEntry) else getattr(entry, "class_path", None)
    package = getattr(entry, "package", None)
    if plugin is None or package is None:
        return []
    pinned = pin_own_environment(references, kind, plugin, package, ("package",))
    return [Wanted(entry=f"{kind}/{name}", spec=pinned, own=SDK)] if pinned is not None else []


def _declared(backend: str, model: str | None) -> list[Wanted]:
    """Return the environments that a backend needs, and a model on it; or that of `metrics/NAME`, `datasets/NAME` …

    Raises:
        NotFound: there is no such entry, or it declares no environment.
        RegistryErrors: a package is not pinned, or has changed.
    """
    catalogue = open_catalogue()
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    if backend.startswith(_METRICS):
        name = backend.removeprefix(_METRICS)
        metric = catalogue.look_up(catalogue.metrics, "metrics", name)
        declared = _of_metric(references, name, metric)
        if references.problems:
            raise errors_of(references, "metrics", metric)
        if not declared:
            cure = "It runs in the platform's interpreter. To change that, add environment to its entry."
            raise NotFound(f"The metric {name!r} declares no environment.", cure=cure, code="no_environment")
        return declared
    kind, _, name = backend.partition("/")
    if kind in _PLUGINS and name:
        declared = _of_plugin(references, kind, name)
        if references.problems:
            raise errors_of(references, kind, catalogue.get(kind, name))
        if not declared:
            cure = "It runs in the platform's interpreter. To change that, write a registered package in its entry."
            raise NotFound(f"{backend} declares no environment.", cure=cure, code="no_environment")
        return declared
    of_backend = catalogue.look_up(catalogue.backends, "backends", backend)
    package = of_backend.default_adapter_package
    entries: tuple[ModelEntry | BackendEntry, ...] = (of_backend,)
    if model is not None:
        of_model = catalogue.look_up(catalogue.models, "models", model)
        _, package = adapter_of(model, of_model, backend, of_backend)
        entries = (of_model, of_backend)
    wanted = _wanted(references, f"backends/{backend}", package, *entries)
    if references.problems:
        raise errors_of(references, "backends", of_backend)
    if not wanted:
        cure = "Its engine runs in the platform's interpreter. To change that, add environment to the entry."
        raise NotFound(f"The backend {backend!r} declares no environment.", cure=cure, code="no_environment")
    return wanted
