"""The Python client: one interface, blocking in `Client` and asynchronous in `AsyncClient`.

A name is imported when it is first used, so that joining a stack, which needs none of them, imports none of them.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

for _library in ("httpx2", "websockets"):
    if find_spec(_library) is None:
        raise ModuleNotFoundError(f"The client needs {_library}: pip install 'vlmhyperbench[client]'", name=_library)

if TYPE_CHECKING:
    from vlmhyperbench.client.clients import AsyncClient, Client
    from vlmhyperbench.client.handles import AsyncExperimentHandle, AsyncRunHandle, ExperimentHandle, RunHandle

__all__ = ["AsyncClient", "AsyncExperimentHandle", "AsyncRunHandle", "Client", "ExperimentHandle", "RunHandle"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'handles' if name.endswith('Handle') else 'clients'}"), name)
