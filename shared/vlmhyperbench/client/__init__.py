"""The Python client: one surface, blocking in `Client` and asynchronous in `AsyncClient`."""

from vlmhyperbench.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
