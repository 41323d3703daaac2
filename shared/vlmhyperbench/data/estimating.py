"""Ask a target's adapter how much memory it needs, where both the adapter and the model's files are.

The API asks at submission, so that the first job is placed by it, and the worker once the files have arrived.
"""

from __future__ import annotations

from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.weights import locate
from vlmhyperbench.domain.specs import ModelTarget, Target
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend, MemoryEstimate

_LOG = get_logger(__name__)


def estimate_memory(target: Target, cache: ModelCache) -> MemoryEstimate | None:
    """Return the adapter's estimate; None if the adapter or a file is not here, or the adapter has none.

    Errors of the adapter are no errors here: they end the load, where they are reported. The files are not verified.
    """
    if not isinstance(target, ModelTarget) or target.brings_its_adapter:
        return None
    try:
        request = LoadRequest(
            model=target.model,
            backend_class=target.backend_class,
            files={file.role: str(locate(file.location, cache)) for file in target.files},
            engine_params=target.engine_params,
        )
        adapter = discovery.load("backends", target.backend_class)()
        return adapter.estimate_memory(request) if isinstance(adapter, Backend) else None
    except VlmHyperBenchError:
        return None
    except Exception as error:  # noqa: BLE001 - the adapter's own code runs here, and may raise anything
        _LOG.warning("memory.not_estimated", model=target.model, reason=repr(error))
        return None
