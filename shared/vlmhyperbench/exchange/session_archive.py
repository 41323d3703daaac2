"""The files of a session, in a zip archive: what was asked, every step of it and of the sessions before it, the answer.

Versions of a stage are counted along the chain of sessions; an answer that a session reuses has no version of its own.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.pipelines import PipelineTarget
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.errors import Conflict, InvalidInput, Unavailable
from vlmhyperbench.registry.gguf_files import BASE
from vlmhyperbench.wire.sessions import SessionDetail, SessionStep

MAX_SESSIONS: Final = 100
"""Sessions of a chain that are exported together."""
MAX_BYTES: Final = 64 * 1024**2
"""Bytes of an archive's files."""

Asked = tuple[SessionDetail, RunSpec]
"""A session with what its run has pinned."""


def pack_session(chain: Sequence[Asked]) -> bytes:
    """Return the archive of a session after those that it was made from, oldest first.

    Raises:
        InvalidInput: its files have more than `MAX_BYTES` (code `export_too_large`).
    """
    last, _ = chain[-1]
    size_bytes, packed = 0, io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _files(chain):
            content = text.encode("utf-8", "replace")
            size_bytes += len(content)
            if size_bytes > MAX_BYTES:
                message = f"The files of the session {last.id} have more than {MAX_BYTES // 1024**2} MiB."
                cure = "Read its steps by `vlmhyperbench pipeline show`, or export a session earlier in its chain."
                raise InvalidInput(message, cure=cure, code="export_too_large")
            archive.writestr(f"{name_of(last)}/{name}", content)
    return packed.getvalue()


def name_of(session: SessionDetail) -> str:
    """Return the name of the folder of a session."""
    return f"{session.created_at:%Y%m%dT%H%M%SZ}-{session.id.hex[:4]}"


def unpack_session(packed: bytes, folder: Path) -> Path:
    """Write the folder of an archive into `sessions` within a folder, and return its path.

    It is written beside its name and renamed when it is whole.

    Raises:
        Conflict: the folder is there already.
        Unavailable: it is no archive of a session, or the folder cannot be written.
    """
    parent = folder / "sessions"
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            (name,) = {PurePosixPath(each).parts[0] for each in archive.namelist()}
            path = parent / name
            if path.exists():
                raise Conflict(f"{path} is there already.", cure="Remove it, or choose another folder.", code="exists")
            parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
            try:
                archive.extractall(temporary)
                (temporary / name).rename(path)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except (zipfile.BadZipFile, ValueError, IndexError) as error:
        cure = "Repeat the command; check VLMHB_API_URL and proxies on the way to it."
        message = "What the API sent is no archive of a session."
        raise Unavailable(message, cure=cure, code="no_archive") from error
    except OSError as error:
        message = f"The session cannot be written to {parent}: {error.strerror or error}."
        raise Unavailable(message, cure="Free some space, or choose another folder.", code="cannot_write") from error
    return path


def _files(chain: Sequence[Asked]) -> Iterator[tuple[str, str]]:
    last, spec = chain[-1]
    yield "config_snapshot.json", _json(spec.model_dump(mode="json"))
    meta: dict[str, JsonValue] = {
        "mode": "base" if last.pipeline == BASE else "named",
        "status": last.state.value,
        "input": {"question": last.question, "images": [*last.images]},
        "pipeline": last.pipeline,
        "started_at": (last.started_at or last.created_at).isoformat(),
        "finished_at": last.finished_at.isoformat() if last.finished_at else None,
        "fallbacks": [load.model_dump(mode="json") for session, _ in chain for load in session.loads],
        "sessions": [str(session.id) for session, _ in chain],
    }
    yield "session_meta.json", _json(meta)
    stages = _names(step.stage for session, _ in chain for step in session.steps)
    versions: dict[str, int] = {}
    for session, its_spec in chain:
        for stage in dict.fromkeys(step.stage for step in session.steps):
            steps = [step for step in session.steps if step.stage == stage]
            if all(step.is_reused or step.state == "skipped" for step in steps):
                continue
            versions[stage] = versions.get(stage, 0) + 1
            for name, text in _stage(session, its_spec, stage, steps):
                yield f"{stages[stage]}_v{versions[stage]}/{name}", text
    yield "final.txt", last.answer or ""


def _stage(
    session: SessionDetail, spec: RunSpec, stage: str, steps: Sequence[SessionStep]
) -> Iterator[tuple[str, str]]:
    states: list[JsonValue] = [step.state for step in steps]
    yield "meta.json", _json({"session": str(session.id), "stage": stage, "states": states})
    yield "input.json", _json({step.model: step.prompt for step in steps if step.role == "member"})
    pinned = spec.target.stages if isinstance(spec.target, PipelineTarget) else ()
    yield "config.json", _json(next((each.model_dump(mode="json") for each in pinned if each.id == stage), None))
    came_to = next((each for each in session.stages if each.id == stage), None)
    combined = came_to.model_dump(mode="json", exclude={"id", "value"}) if came_to is not None else {}
    yield "output.json", _json({**combined, "answer": came_to.value if came_to is not None else None})
    files = _names(step.model for step in steps)
    for step in steps:
        suffix = "" if step.role == "member" else f".{step.role}"
        yield f"members/{files[step.model]}{suffix}.json", _json(step.model_dump(mode="json"))


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _names(given: Iterable[str]) -> dict[str, str]:
    """Return each name in the characters of file names; those of two names differ, also without regard to case."""
    made: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(given):
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100].lstrip(".") or "unnamed"
        free = (file for no in range(1, len(taken) + 2) if (file := plain if no == 1 else f"{plain}~{no}"))
        made[name] = next(file for file in free if file.casefold() not in taken)
        taken.add(made[name].casefold())
    return made
