"""`envs`: list, build and remove the environments in which engines run on this machine."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import TARGET
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.environments.listing import Wanted, key_of, list_environments
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.schemas import BackendEntry, ModelEntry
from vlmhyperbench.registry.targets import environment_of
from vlmhyperbench.settings import Settings

app = App(name="envs", help="List, build and remove the environments of engines.")

_LIST = "`vlmhyperbench envs list` lists all."


@app.command(name="list")
def list_(*, output: OutputFlags = TEXT) -> int:
    """List environments that backends and models declare, and those that are on this machine.

    Args:
        output: How the output is printed.
    """
    settings, catalogue = Settings.load(), open_catalogue()
    entries: dict[str, BackendEntry | ModelEntry] = {
        **{f"backends/{name}": backend for name, backend in sorted(catalogue.backends.items())},
        **{f"models/{name}": model for name, model in sorted(catalogue.models.items())},
    }
    wanted = [
        Wanted(entry=name, spec=spec) for name, entry in entries.items() if (spec := environment_of(entry)) is not None
    ]
    store = EnvironmentStore(settings.environments_dir)
    rows = asyncio.run(list_environments(wanted, store, settings.home / "logs"))
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
    """Build the environment of a backend's engine, unless it is there; a run does the same when it needs it.

    Args:
        backend: Name of the backend.
        model: Model whose entry may declare an environment of its own.
        output: How the output is printed.
    """
    settings, spec = Settings.load(), _spec(backend, model)
    started = time.monotonic()

    async def tell(step: str, packages: int | None) -> None:
        installing = f"Installing {packages} package{'' if packages == 1 else 's'} …"
        if packages is None:
            installing = "Preparing the image …"
        texts = {
            "resolving": "Resolving …",
            "waiting": "Another process builds it. Waiting …",
            "installing": installing,
        }
        note(texts[step], output)

    async def prepare() -> dict[str, object]:
        async with prepared(spec, settings.environments_dir, settings.home / "logs", tell=tell) as ready:
            return {
                "key": ready.key,
                "image": ready.image,
                "python": ready.python,
                "python_version": ready.python_version,
                "packages": dict(ready.packages),
                "seconds": round(time.monotonic() - started, 3),
            }

    made = asyncio.run(prepare())
    if output.json:
        emit("environment", made)
    else:
        say(f"The environment {made['key']} of {backend} is ready: {made['image'] or made['python']}")
    return exits.OK


@app.command
def remove(
    backend: str, /, *, model: Annotated[str | None, Parameter(group=TARGET)] = None, output: OutputFlags = TEXT
) -> int:
    """Remove an environment from this machine; the next build resolves it anew. One that is in use is refused.

    Args:
        backend: Name of the backend, or the key of an environment.
        model: Model whose entry may declare an environment of its own.
        output: How the output is printed.
    """
    settings = Settings.load()
    store = EnvironmentStore(settings.environments_dir)

    async def find_and_remove() -> str:
        if backend in store.list_keys():
            key: str | None = backend
        else:
            key = await key_of(_spec(backend, model), store, settings.home / "logs")
        if key is None:
            raise NotFound(f"The environment of {backend} is not on this machine.", cure=_LIST, code="no_environment")
        await store.remove(key)
        return key

    removed = asyncio.run(find_and_remove())
    if output.json:
        emit("environment", {"key": removed})
    else:
        say(f"The environment {removed} is removed.")
    return exits.OK


def _spec(backend: str, model: str | None) -> EnvironmentSpec:
    """Return the environment that the entries declare.

    Raises:
        NotFound: there is no such backend or model, or neither declares an environment.
    """
    catalogue = open_catalogue()
    of_backend = catalogue.look_up(catalogue.backends, "backends", backend)
    of_model = catalogue.look_up(catalogue.models, "models", model) if model is not None else None
    spec = environment_of(*([of_model] if of_model is not None else []), of_backend)
    if spec is None:
        cure = "Its engine runs in the platform's interpreter. To change that, add environment to the entry."
        raise NotFound(f"The backend {backend!r} declares no environment.", cure=cure, code="no_environment")
    return spec
