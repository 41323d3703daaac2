"""`/saved-views`: the filters that a person keeps of a page, under names."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from vlmhyperbench.db import saved_views as rows
from vlmhyperbench.db.views import SavedViewView
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.wire.base import Label, Page
from vlmhyperbench.wire.saved_views import SavedView, ViewSave
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import Session
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/saved-views", tags=["saved views"], route_class=StrictRoute)

MAX_VIEWS = 100
"""Views that one principal keeps of a page."""

# Whoever may read runs may keep their own filters of them; a browser needs its page's token here as for all changes.
Reader = Annotated[Principal, requires("run:read")]
PageName = Annotated[str, Path(pattern="^[a-z]{1,40}$", description="Page of the dashboard, such as `runs`.")]
ViewName = Annotated[Label, Path(max_length=60)]


@router.get("/{page}")
async def list_saved_views(page: PageName, principal: Reader, session: Session) -> Page[SavedView]:
    """List your views of a page, by name."""
    views = await rows.of_principal(session, principal.project_id, principal.name, page=page)
    return Page[SavedView](items=[_shown(view) for view in views])


@router.put("/{page}/{name}")
async def save_view(page: PageName, name: ViewName, body: ViewSave, principal: Reader, session: Session) -> SavedView:
    """Keep filters under a name, or replace those that it has."""
    saved = await rows.save(session, principal.project_id, principal.name, page=page, name=name, search=body.search)
    if len(await rows.of_principal(session, principal.project_id, principal.name, page=page)) > MAX_VIEWS:
        raise InvalidInput(f"A page has at most {MAX_VIEWS} views.", cure="Remove one of them.", code="too_many_views")
    return _shown(saved)


@router.delete("/{page}/{name}")
async def remove_view(page: PageName, name: ViewName, principal: Reader, session: Session) -> Page[SavedView]:
    """Remove a view, and return those that are left."""
    if not await rows.remove(session, principal.project_id, principal.name, page=page, name=name):
        raise NotFound(f"There is no view {name!r} of this page.", cure="List them: GET /api/v1/saved-views/PAGE.")
    return await list_saved_views(page, principal, session)


def _shown(view: SavedViewView) -> SavedView:
    return SavedView.model_validate(view, from_attributes=True)
