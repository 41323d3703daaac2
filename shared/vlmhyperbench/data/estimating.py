"""Ask a target's adapter how much memory it needs, where both the adapter and the model's files are.

The API asks at submission, so that the first job is placed by it, and the worker once the files have arrived.
"""

from __future__ import annotations

from dataclasses import replace

from vlmhyperbench.data.load_fitting import LoadLadder
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.weights import locate
from vlmhyperbench.domain.fallbacks import MachineMemory
from vlmhyperbench.domain.specs import ModelTarget, Target
from vlmhyperbench.errors import NotFound, VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend, FittingBackend, MemoryEstimate

_LOG = get_logger(__name__)


def estimate_memory(target: Target, cache: ModelCache) -> MemoryEstimate | None:
    """Return the adapter's estimate; None if the adapter or a file is not here, or the adapter has none.

    Errors of the adapter are no errors here: they end the load, where they are reported. The files are not verified.
    """
    try:
        request = load_request_of(target, cache)
        if request is None:
            return None
        adapter = discovery.load("backends", request.backend_class)()
        estimate = adapter.estimate_memory(request) if isinstance(adapter, Backend) else None
        if estimate is None or not isinstance(adapter, FittingBackend):
            return estimate
        least = LoadLadder(adapter, request, lambda: MachineMemory(devices=(), host=0)).smallest()
        if least is None:
            return estimate
        return replace(estimate, min_device_bytes=least.device, min_host_bytes=least.host)
    except VlmHyperBenchError:
        return None
    except Exception as error:  # noqa: BLE001 - the adapter's own code runs here, and may raise anything
        _LOG.warning("memory.not_estimated", model=target.served_name, reason=repr(error))
        return None


def whole_estimate(adapter: Backend, request: LoadRequest) -> MemoryEstimate | None:
    """Return what a load takes, with the buffers for computing where the adapter knows them: what is shown to people.

    Placement takes the least that is certain instead, so that nothing is refused which would fit.

    Raises:
        VlmHyperBenchError: a parameter is wrong, or a file is missing or no model.
    """
    return adapter.estimate_whole(request) if isinstance(adapter, FittingBackend) else adapter.estimate_memory(request)


def shown_estimate(target: Target, cache: ModelCache) -> MemoryEstimate | None:
    """Return `whole_estimate` of a target; None if the adapter or a file is not here, or the adapter has none.

    Raises:
        InvalidInput: a parameter is wrong, or a file is no model.
    """
    try:
        request = load_request_of(target, cache)
        adapter = discovery.load("backends", request.backend_class)() if request is not None else None
        return whole_estimate(adapter, request) if request is not None and isinstance(adapter, Backend) else None
    except NotFound:
        return None


def load_request_of(target: Target, cache: ModelCache) -> LoadRequest | None:
    """Return how a target would be loaded; None where its adapter is not here. The files are not verified.

    Raises:
        VlmHyperBenchError: a file is not here.
    """
    if not isinstance(target, ModelTarget) or target.brings_its_adapter:
        return None
    return LoadRequest(
        model=target.model,
        backend_class=target.backend_class,
        files={file.role: str(locate(file.location, cache)) for file in target.files},
        engine_params=target.engine_params,
    )
