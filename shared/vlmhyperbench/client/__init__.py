"""The Python client: one interface, blocking in `Client` and asynchronous in `AsyncClient`."""

from importlib.util import find_spec

for _library in ("httpx2", "websockets"):
    if find_spec(_library) is None:
        raise ModuleNotFoundError(f"The client needs {_library}: pip install 'vlmhyperbench[client]'", name=_library)

from vlmhyperbench.client.clients import AsyncClient, Client  # noqa: E402 - their libraries are checked above
from vlmhyperbench.client.handles import (  # noqa: E402 - as above
    AsyncExperimentHandle,
    AsyncRunHandle,
    ExperimentHandle,
    RunHandle,
)

__all__ = ["AsyncClient", "AsyncExperimentHandle", "AsyncRunHandle", "Client", "ExperimentHandle", "RunHandle"]
