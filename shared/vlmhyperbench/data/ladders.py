"""Open the ladder of a target whose files are on this machine: of a run's and of a served model alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vlmhyperbench.data.estimating import load_request_of
from vlmhyperbench.data.fetching import is_complete
from vlmhyperbench.data.load_fitting import LoadLadder, Substitute
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.weights import locate
from vlmhyperbench.domain.fallbacks import MachineMemory, TaskTokens
from vlmhyperbench.domain.specs import ModelTarget, Target
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.protocols import FittingBackend


def open_ladder(
    target: Target,
    cache: ModelCache,
    measure: Callable[[], MachineMemory],
    *,
    devices: int = 1,
    allow_lossy: bool = False,
    task: TaskTokens | None = None,
    smaller: Sequence[ModelTarget] = (),
) -> LoadLadder | None:
    """Return what may be given up of a target so that it fits; None where its engine has no ladder.

    Args:
        target: What is to be loaded; its files are here.
        cache: Where its files lie.
        measure: Returns the memory that it may use, asked when it is loaded.
        devices: Accelerators over which its engine spreads its layers.
        allow_lossy: Whether quality may be given up.
        task: What the longest request needs of the context; None: the context is not cut.
        smaller: Other quantisations of the same model, the largest first; those whose files are not here are left out.

    Raises:
        InvalidInput: a parameter is wrong, or a file is no model.
        NotFound: a file is missing.
    """
    request = load_request_of(target, cache)
    adapter = discovery.load("backends", target.backend_class)() if request is not None else None
    if request is None or not isinstance(adapter, FittingBackend):
        return None
    here = list(_here(smaller, cache)) if allow_lossy else []
    return LoadLadder(adapter, request, measure, devices=devices, allow_lossy=allow_lossy, task=task, smaller=here)


def _here(smaller: Sequence[ModelTarget], cache: ModelCache) -> Iterator[Substitute]:
    for target in smaller:
        if is_complete(target.files, cache):
            files = {file.role: locate(file.location, cache) for file in target.files}
            if all(path.is_file() for path in files.values()):
                yield Substitute(target=target, files={role: str(path) for role, path in files.items()})
