"""`/answers`: upload answers from other tools in the neutral format, for runs that import them."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request

from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.wire.answers import Answers
from vlmhyperbench_api.answer_files import MEDIA_TYPE
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import AnswerFilesOf
from vlmhyperbench_api.errors import UnsupportedMedia
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/answers", tags=["answers"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]

_BODY = {"requestBody": {"required": True, "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}}


@router.post("", status_code=201, openapi_extra=_BODY)
async def upload_answers(request: Request, principal: Writer, answer_files: AnswerFilesOf) -> Answers:
    """Upload a file of answers; uploading the same file again returns the same entry."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MEDIA_TYPE:
        raise UnsupportedMedia(f"The body is {kind or 'of no type'}.", cure=f"Send Content-Type: {MEDIA_TYPE}.")
    with tempfile.TemporaryDirectory(prefix="vlmhb-answers-") as folder:
        path = Path(folder) / "answers.jsonl"
        sha256 = await _receive(request, path)
        return await answer_files.keep(principal.project_id, path, sha256=sha256)


@router.get("/{sha256}")
async def get_answers(sha256: Sha256, principal: Reader, answer_files: AnswerFilesOf) -> Answers:
    """Describe a file of answers."""
    return await answer_files.describe(principal.project_id, sha256)


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
