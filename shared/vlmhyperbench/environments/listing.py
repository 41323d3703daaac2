"""What environments a machine has, and which entries of the registry want which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, EnvironmentSpec, RentedSpec
from vlmhyperbench.environments.apptainer_images import apptainer_key
from vlmhyperbench.environments.docker_images import docker_key
from vlmhyperbench.environments.interpreters import find_interpreter
from vlmhyperbench.environments.rented_records import is_busy, machines_in
from vlmhyperbench.environments.resolving import environment_key, spec_key
from vlmhyperbench.environments.store import EnvironmentStore, Ready
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import NotFound

State = Literal["ready", "in use", "half-built", "not built", "no python", "on demand", "not returned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An environment that an entry of the registry declares."""

    entry: str
    """`backends/NAME`, `models/NAME`, `metrics/NAME`, `datasets/NAME` or `prompts/NAME`."""
    spec: EnvironmentSpec
    own: tuple[str, ...] = ()
    """Distributions of the platform that it holds too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An environment that is declared, or that is on this machine, or both."""

    key: str | None
    """None if it was never resolved here; the name of a rented machine."""
    kind: str
    """`virtualenv`, `docker`, `apptainer` or `remote`."""
    state: State
    entries: tuple[str, ...] = ()
    """Empty: no entry declares it any more."""
    python: str | None = None
    packages: int | None = None
    size_bytes: int | None = None


async def key_of(spec: EnvironmentSpec, workshop: Workshop, *, own: Collection[str] = ()) -> str | None:
    """Return the key of a spec's environment; None if it was never resolved on this machine, or is rented on demand.

    `own` are distributions of the platform that it holds too.

    Raises:
        NotFound: the machine has no such version of Python.
        Unavailable: uv is missing.
    """
    if isinstance(spec, DockerSpec):
        return docker_key(spec)
    if isinstance(spec, ApptainerSpec):
        return apptainer_key(spec)
    if isinstance(spec, RentedSpec):
        return None
    store = workshop.store
    interpreter = await find_interpreter(spec, store, workshop.logs)
    file = store.resolved_file(spec_key(spec, interpreter, store, own=own))
    return environment_key(spec, interpreter, file.read_text(encoding="utf-8")) if file.is_file() else None


async def list_environments(wanted: Sequence[Wanted], workshop: Workshop) -> list[Listed]:
    """List declared environments by entry, then those that no entry declares.

    Raises:
        Unavailable: uv is missing.
    """
    store, entries = workshop.store, dict[str, list[str]]()
    kinds: dict[str, str] = {}
    missing: list[Listed] = []
    for declared in wanted:
        state: State = "on demand" if isinstance(declared.spec, RentedSpec) else "not built"
        try:
            key = await key_of(declared.spec, workshop, own=declared.own)
        except NotFound:
            key, state = None, "no python"
        if key is None:
            names, python = (declared.entry,), declared.spec.python
            missing.append(Listed(key=None, kind=declared.spec.kind, state=state, entries=names, python=python))
        else:
            entries.setdefault(key, []).append(declared.entry)
            kinds[key] = declared.spec.kind
    unused = [key for key in store.list_keys() if key not in entries]
    built = [_listed(key, names, kinds, store) for key, names in [*entries.items(), *((key, []) for key in unused)]]
    rented = [_rented(name, store) for name in machines_in(store.folder)]
    return [*(row for row in built if row.entries), *missing, *(row for row in built if not row.entries), *rented]


async def look_up(wanted: Wanted, workshop: Workshop) -> Listed:
    """Return one declared environment as it is on this machine.

    Raises:
        Unavailable: uv is missing.
    """
    return next(row for row in await list_environments([wanted], workshop) if row.entries)


def _rented(name: str, store: EnvironmentStore) -> Listed:
    return Listed(key=name, kind="remote", state="in use" if is_busy(store.folder, name) else "not returned")


def _listed(key: str, entries: Sequence[str], kinds: Mapping[str, str], store: EnvironmentStore) -> Listed:
    ready = store.ready(key)
    installer = ready.manager if ready is not None else "virtualenv"
    kind = kinds.get(key) or (installer if installer in {"docker", "apptainer"} else "virtualenv")
    return Listed(
        key=key,
        kind=kind,
        state=_state(key, ready, store),
        entries=tuple(entries),
        python=ready.python_version if ready is not None else None,
        packages=len(ready.packages) if ready is not None else None,
        size_bytes=ready.size_bytes if ready is not None else None,
    )


def _state(key: str, ready: Ready | None, store: EnvironmentStore) -> State:
    if ready is not None:
        return "in use" if store.is_busy(key) else "ready"
    return "half-built" if store.folder_of(key).exists() else "not built"
