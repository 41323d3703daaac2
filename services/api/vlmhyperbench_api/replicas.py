"""Lists from a read replica: the database of a list, and a list that is read once more where the replica failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_api.dependencies import runtime_of

_CHOICE = "vlmhyperbench.list_database"


async def _list_database(request: Request, runtime: Annotated[Runtime, Depends(runtime_of)]) -> Database:
    database = await runtime.lists.current()
    request.scope[_CHOICE].append(database)
    return database


async def _list_session(database: Annotated[Database, Depends(_list_database)]) -> AsyncIterator[AsyncSession]:
    async with database.transaction() as session:
        yield session


ListDatabase = Annotated[Database, Depends(_list_database)]
"""The server that a list is read from: it has all that was committed before the request."""
ListSession = Annotated[AsyncSession, Depends(_list_session, scope="function")]
"""One transaction on that server, which ends before the response is sent."""


class ReadAgain:
    """ASGI middleware: repeats a GET that was answered by 503 because the replica failed, now from the primary."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        chosen: list[Database] = []
        is_failed = False

        async def unless_failed(message: Message) -> None:
            nonlocal is_failed
            if message["type"] == "http.response.start" and message["status"] == 503 and scope["method"] == "GET":
                lists = scope["app"].state.runtime.lists
                is_failed = any(lists.failed(database, "It failed while it was read.") for database in chosen)
            if not is_failed:
                await send(message)

        scope[_CHOICE] = chosen
        await self._app(scope, receive, unless_failed)
        if is_failed:
            await self._app(scope, receive, send)
