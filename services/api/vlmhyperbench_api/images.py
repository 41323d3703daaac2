"""`/runs/…/images`: the images of a run's samples, as stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import FileResponse, Response

from vlmhyperbench.data import thumbnails
from vlmhyperbench.data.images import image_key
from vlmhyperbench.db import manifests, runs
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.errors import NotFound
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf, Session, ThumbnailsOf
from vlmhyperbench_api.ids import RunId
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/runs", tags=["results"], route_class=StrictRoute)

_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=31536000, immutable",
}
"""Headers of images, whose content is untrusted: shown as an image or not at all; the name is the content's hash."""

_THUMBNAIL: dict[str, dict[str, str]] = {thumbnails.MEDIA_TYPE: {}}


@router.get("/{run_id}/images/{sha256}", response_class=FileResponse)
async def get_image(
    run_id: RunId,
    sha256: Sha256,
    principal: Annotated[Principal, requires("run:read")],
    session: Session,
    runtime: RuntimeOf,
) -> FileResponse:
    """Download an image of the run's samples."""
    run = await runs.get(session, run_id, project_id=principal.project_id)
    image = await image_of_runs(session, runtime, [run] if run is not None else [], sha256)
    if image is None:
        raise _no_image(run_id, sha256)
    return image


@router.get("/{run_id}/images/{sha256}/thumbnail", response_class=Response, responses={200: {"content": _THUMBNAIL}})
async def get_thumbnail(
    run_id: RunId,
    sha256: Sha256,
    principal: Annotated[Principal, requires("run:read")],
    runtime: RuntimeOf,
    made: ThumbnailsOf,
) -> Response:
    """Return an image of the run's samples as a WebP of at most 96 × 96 pixels, for lists."""
    async with runtime.database.transaction() as session:
        run = await runs.get(session, run_id, project_id=principal.project_id)
        if await _media_type(session, runtime, [run] if run is not None else [], sha256) is None:
            raise _no_image(run_id, sha256)
    headers = {**_HEADERS, "ETag": f'"{sha256}-{thumbnails.SIDE}"'}
    return Response(await made.of(sha256), media_type=thumbnails.MEDIA_TYPE, headers=headers)


def _no_image(run_id: UUID, sha256: str) -> NotFound:
    return NotFound(f"The run {run_id} has no image {sha256[:12]}….", cure="Take the hashes of /results.")


async def image_of_runs(
    session: AsyncSession, runtime: Runtime, asking: Iterable[RunView], sha256: str
) -> FileResponse | None:
    """Return an image that belongs to a sample of one of these runs, or None."""
    media_type = await _media_type(session, runtime, asking, sha256)
    if media_type is None:
        return None
    path = await runtime.storage.open(image_key(sha256), sha256)
    return FileResponse(path, media_type=media_type, headers={**_HEADERS, "ETag": f'"{sha256}"'})


async def _media_type(session: AsyncSession, runtime: Runtime, asking: Iterable[RunView], sha256: str) -> str | None:
    """Return the media type of an image that belongs to a sample or an example of one of these runs, or None."""
    from vlmhyperbench_api.samples import media_type_of  # imports polars on first use

    ids = (manifest_id for run in asking for manifest_id in (run.manifest_id, run.examples_id))
    for manifest_id in dict.fromkeys(filter(None, ids)):
        manifest = await manifests.get(session, manifest_id)
        if manifest is None:
            continue
        samples = await runtime.storage.open(manifest.storage_key, manifest.id)
        media_type = await asyncio.to_thread(media_type_of, samples, sha256)
        if media_type is not None:
            return media_type
    return None
