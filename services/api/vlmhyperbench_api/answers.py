"""`/answers`: files of other tools' answers, sent in the neutral form, checked, and kept for runs to take them from."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request

from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.errors import NotFound, Unavailable
from vlmhyperbench.exchange.answers import answers_key
from vlmhyperbench.exchange.summary import summarise
from vlmhyperbench.storage import Storage
from vlmhyperbench.wire.answers import Answers
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf
from vlmhyperbench_api.errors import UnsupportedMedia
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/answers", tags=["answers"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]

MEDIA_TYPE = "application/x-ndjson"
_BODY = {"requestBody": {"required": True, "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}}


@router.post("", status_code=201, openapi_extra=_BODY)
async def upload_answers(request: Request, principal: Writer, runtime: RuntimeOf) -> Answers:
    """Keep a file of answers; the same file again is the same entry."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MEDIA_TYPE:
        raise UnsupportedMedia(f"The body is {kind or 'of no type'}.", cure=f"Send Content-Type: {MEDIA_TYPE}.")
    with tempfile.TemporaryDirectory(prefix="vlmhb-answers-") as folder:
        path = Path(folder) / "answers.jsonl"
        sha256 = await _receive(request, path)
        async with request.app.state.readers:
            found = await summarise(path, sha256=sha256)
        await asyncio.to_thread(_keep, runtime.storage, principal.project_id, path, found)
    return found


@router.get("/{sha256}")
async def get_answers(sha256: Sha256, principal: Reader, runtime: RuntimeOf) -> Answers:
    """Describe a file of answers."""
    return await asyncio.to_thread(read_summary, runtime.storage, principal.project_id, sha256)


def read_summary(storage: Storage, project_id: str, sha256: str) -> Answers:
    """Read what a file holds that somebody of the project sent.

    Raises:
        NotFound: nobody sent it.
    """
    try:
        return Answers.model_validate_json(storage.get(_summary_key(project_id, sha256)))
    except NotFound as error:
        raise NotFound(f"There are no answers {sha256[:12]}….", cure="Send the file first.") from error


async def _receive(request: Request, path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("wb") as file:
            async for part in request.stream():
                digest.update(part)
                await asyncio.to_thread(file.write, part)
    except OSError as error:
        raise Unavailable(f"The answers cannot be written: {error.strerror}.", cure="Free some space.") from error
    return digest.hexdigest()


def _summary_key(project_id: str, sha256: str) -> str:
    return f"{answers_key(project_id, sha256)}.summary.json"


def _keep(storage: Storage, project_id: str, path: Path, found: Answers) -> None:
    storage.put(answers_key(project_id, found.sha256), path, media_type=MEDIA_TYPE)
    storage.put(_summary_key(project_id, found.sha256), found.model_dump_json().encode(), media_type="application/json")
