"""Descriptors that turn a call, or an operation of several calls, into a blocking or a coroutine method."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from uuid import UUID

from vlmhyperbench.client.call import Call
from vlmhyperbench.client.steps import Steps

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
H = TypeVar("H")
S = TypeVar("S")


class SendsNow(Protocol):
    """The blocking client."""

    def send(self, call: Call[T]) -> T: ...
    def do(self, steps: Steps[T]) -> T: ...


class SendsLater(Protocol):
    """The asynchronous client."""

    async def send(self, call: Call[T]) -> T: ...
    async def do(self, steps: Steps[T]) -> T: ...


class Resource:
    """A group of calls of the blocking client."""

    def __init__(self, client: SendsNow) -> None:
        self.client = client


class AsyncResource:
    """A group of calls of the asynchronous client."""

    def __init__(self, client: SendsLater) -> None:
        self.client = client


class Now(Generic[P, T]):
    """A method that sends a call and returns its result."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    def __get__(self, resource: Resource, owner: type) -> Callable[P, T]:
        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return resource.client.send(self._build(*args, **kwargs))

        return method


class Later(Generic[P, T]):
    """A coroutine method that sends a call and returns its result."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    def __get__(self, resource: AsyncResource, owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(self._build)
        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await resource.client.send(self._build(*args, **kwargs))

        return method


class HandleNow(Generic[P, T, U]):
    """A method that sends a call and returns its result as a handle."""

    def __init__(self, build: Callable[P, Call[T]], bind: Callable[[Any, T], U]) -> None:
        self._build, self._bind = build, bind

    def __get__(self, resource: Resource, owner: type) -> Callable[P, U]:
        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> U:
            return self._bind(resource.client, resource.client.send(self._build(*args, **kwargs)))

        return method


class HandleLater(Generic[P, T, U]):
    """A coroutine method that sends a call and returns its result as a handle."""

    def __init__(self, build: Callable[P, Call[T]], bind: Callable[[Any, T], U]) -> None:
        self._build, self._bind = build, bind

    def __get__(self, resource: AsyncResource, owner: type) -> Callable[P, Coroutine[Any, Any, U]]:
        @functools.wraps(self._build)
        async def method(*args: P.args, **kwargs: P.kwargs) -> U:
            return self._bind(resource.client, await resource.client.send(self._build(*args, **kwargs)))

        return method


class RenewNow(Generic[P, T]):
    """A method of a handle that sends a call with its id and updates the handle from the result."""

    def __init__(self, build: Callable[Concatenate[UUID, P], Call[T]]) -> None:
        self._build = build

    def __get__(self, handle: H, owner: type) -> Callable[P, H]:
        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> H:
            bound: Any = handle
            bound.take(bound.client.send(self._build(bound.id, *args, **kwargs)))
            return handle

        return method


class RenewLater(Generic[P, T]):
    """The coroutine form of `RenewNow`."""

    def __init__(self, build: Callable[Concatenate[UUID, P], Call[T]]) -> None:
        self._build = build

    def __get__(self, handle: H, owner: type) -> Callable[P, Coroutine[Any, Any, H]]:
        @functools.wraps(self._build)
        async def method(*args: P.args, **kwargs: P.kwargs) -> H:
            bound: Any = handle
            bound.take(await bound.client.send(self._build(bound.id, *args, **kwargs)))
            return handle

        return method


class DoNow(Generic[S, P, T]):
    """A method of a handle that runs an operation of several calls on it."""

    def __init__(self, build: Callable[Concatenate[S, P], Steps[T]]) -> None:
        self._build = build

    def __get__(self, handle: Any, owner: type) -> Callable[P, T]:
        @functools.wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            result: T = handle.client.do(self._build(handle, *args, **kwargs))
            return result

        return method


class DoLater(Generic[S, P, T]):
    """The coroutine form of `DoNow`."""

    def __init__(self, build: Callable[Concatenate[S, P], Steps[T]]) -> None:
        self._build = build

    def __get__(self, handle: Any, owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(self._build)
        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            result: T = await handle.client.do(self._build(handle, *args, **kwargs))
            return result

        return method
