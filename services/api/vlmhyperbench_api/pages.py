"""What a browser opens beside the dashboard: the link that signs in, reports, files and the images of samples."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse

from vlmhyperbench.db import artifacts, experiments, runs
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.domain.tickets import SESSION_S
from vlmhyperbench.errors import NotFound, VlmHyperBenchError
from vlmhyperbench_api.artifacts import REPORT_FILES, REPORT_POLICY
from vlmhyperbench_api.cookies import cookie_name
from vlmhyperbench_api.dependencies import RuntimeOf, Session
from vlmhyperbench_api.errors import status_of
from vlmhyperbench_api.html import files_page, message_page, page_policy
from vlmhyperbench_api.images import image_of_runs
from vlmhyperbench_api.security import PUBLIC, Principal
from vlmhyperbench_api.sessions import SIGN_IN, PagePolicy, open_session

_OWN_PATH = r"^/([A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)?$"
"""Paths of the dashboard; neither another host nor a query."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

FileReader = Annotated[Principal, Depends(PagePolicy("artifact:read"))]


class PageRoute(APIRoute):
    """A route whose errors are rendered as HTML pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                response = await handle(request)
            except VlmHyperBenchError as error:
                response = _html(message_page(error.message, error.cure), status=status_of(error))
            except RequestValidationError:
                response = _html(message_page("There is no such page.", "Go back to the list."), status=404)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return page


router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(SIGN_IN, dependencies=[PUBLIC])
async def sign_in(
    request: Request,
    ticket: Annotated[str, Query(max_length=300)] = "",
    to: Annotated[str, Query(max_length=300, pattern=_OWN_PATH)] = "/",
) -> Response:
    """Exchange a ticket for a session, and go to a page of the dashboard with the token in the address's fragment.

    A fragment never reaches a server; the dashboard removes it from the address at once.
    """
    cookie, token = await open_session(request, ticket)
    response = RedirectResponse(f"{to}#token={token}", status_code=303)
    response.set_cookie(
        cookie_name(request),
        cookie,
        max_age=SESSION_S,
        httponly=True,
        samesite="lax",  # reports have their own origin, so their links to document pages are cross-site
        secure=request.url.scheme == "https",
    )
    return response


@router.get("/reports/{scope_id}")
async def show_report(scope_id: UUID, principal: FileReader, runtime: RuntimeOf) -> Response:
    """Show the newest report of a run or an experiment, or its files if it has no HTML page."""
    async with runtime.database.transaction() as session:
        name, files = await _files(session, scope_id, principal)
    page = next((file for file in files if file.name == "report.html"), None)
    if page is None:
        shown = [file for file in files if file.kind in REPORT_FILES]
        return _html(files_page(name, shown))
    path = await runtime.storage.open(page.storage_key, page.sha256)
    return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/files/{artifact_id}")
async def download(artifact_id: UUID, principal: FileReader, runtime: RuntimeOf) -> Response:
    """Download one file."""
    async with runtime.database.transaction() as session:
        file = await artifacts.get(session, artifact_id, project_id=principal.project_id)
    if file is None:
        raise NotFound("There is no such file.", cure="Go back to the list.")
    path = await runtime.storage.open(file.storage_key, file.sha256)
    headers = {"Content-Security-Policy": REPORT_POLICY}
    return FileResponse(path, media_type=file.media_type, filename=file.name, headers=headers)


@router.get("/reports/{scope_id}/images/{sha256}")
async def show_image(
    scope_id: UUID, sha256: Sha256, principal: FileReader, session: Session, runtime: RuntimeOf
) -> Response:
    """Show a document page from the samples of the run, or of a run of the experiment."""
    run = await runs.get(session, scope_id, project_id=principal.project_id)
    members = [run] if run is not None else []
    if not members and await experiments.get(session, scope_id, project_id=principal.project_id) is not None:
        members = await runs.of_experiment(session, scope_id)
    image = await image_of_runs(session, runtime, members, sha256)
    if image is None:
        raise NotFound("There is no such page of a document.", cure="Go back to the report.")
    return image


async def _files(session: AsyncSession, scope_id: UUID, principal: Principal) -> tuple[str, list[ArtifactView]]:
    run = await runs.get(session, scope_id, project_id=principal.project_id)
    if run is not None:
        return run.name, await artifacts.of_run(session, scope_id)
    experiment = await experiments.get(session, scope_id, project_id=principal.project_id)
    if experiment is not None:
        return experiment.name, await artifacts.of_experiment(session, scope_id)
    raise NotFound("There is no such run or experiment.", cure="Go back to the list.")


def _html(page: str, *, status: int = 200) -> HTMLResponse:
    return HTMLResponse(page, status_code=status, headers={"Content-Security-Policy": page_policy()})
