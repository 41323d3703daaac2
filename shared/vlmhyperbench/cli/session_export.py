"""Write a session into a folder: what was asked, every step of it and of the sessions before it, the final answer.

The folder is written beside its name and renamed when it is whole. Versions of a stage are counted along the chain of
sessions; an answer that a session reuses has no version of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from pydantic import JsonValue

from vlmhyperbench.client import Client
from vlmhyperbench.errors import Conflict, Unavailable
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench.wire.sessions import SessionDetail, SessionStep


def export_session(client: Client, session_id: UUID, folder: Path) -> Path:
    """Write a session with its ancestors, and return the path of the new folder.

    Raises:
        NotFound: there is no such session.
        Conflict: it has not ended, or the folder is there already.
        Unavailable: the folder cannot be written.
    """
    chain = _chain(client, session_id)
    last, _ = chain[-1]
    if not last.state.is_terminal:
        raise Conflict(f"The session {last.id} has not ended.", cure="Wait until it has ended.", code="run_open")
    path = folder / "sessions" / f"{last.created_at:%Y%m%dT%H%M%SZ}-{last.id.hex[:4]}"
    if path.exists():
        raise Conflict(f"{path} is there already.", cure="Remove it, or choose another folder.", code="exists")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            _write(temporary, chain)
            temporary.rename(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        message = f"The session cannot be written to {path}: {error.strerror or error}."
        raise Unavailable(message, cure="Free some space, or choose another folder.", code="cannot_write") from error
    return path


def _chain(client: Client, session_id: UUID) -> list[tuple[SessionDetail, RunDetail]]:
    """Return the session after those that it was made from, oldest first."""
    chain: list[tuple[SessionDetail, RunDetail]] = []
    wanted: UUID | None = session_id
    while wanted is not None:
        session = client.sessions.get(wanted)
        chain.append((session, client.runs.get(wanted)))
        wanted = session.parent_run_id
    return chain[::-1]


def _write(folder: Path, chain: Sequence[tuple[SessionDetail, RunDetail]]) -> None:
    last, run = chain[-1]
    _json(folder / "config_snapshot.json", run.spec.model_dump(mode="json"))
    _json(
        folder / "session_meta.json",
        {
            "mode": "pipeline",
            "status": last.state.value,
            "input": {"question": last.question, "images": list(last.images)},
            "pipeline": last.pipeline,
            "started_at": last.created_at.isoformat(),
            "finished_at": last.finished_at.isoformat() if last.finished_at else None,
            "fallbacks": [load.model_dump(mode="json") for session, _ in chain for load in session.loads],
            "sessions": [str(session.id) for session, _ in chain],
        },
    )
    versions: dict[str, int] = {}
    for session, its_run in chain:
        for stage in dict.fromkeys(step.stage for step in session.steps):
            steps = [step for step in session.steps if step.stage == stage]
            if all(step.is_reused or step.state == "skipped" for step in steps):
                continue
            versions[stage] = versions.get(stage, 0) + 1
            _stage(folder / f"{_file_name(stage)}_v{versions[stage]}", session, its_run, stage, steps)
    (folder / "final.txt").write_text(last.answer or "", encoding="utf-8")


def _stage(folder: Path, session: SessionDetail, run: RunDetail, stage: str, steps: Sequence[SessionStep]) -> None:
    (folder / "members").mkdir(parents=True)
    spec = run.spec.model_dump(mode="json")
    pinned = next(config for config in spec["target"]["stages"] if config["id"] == stage)
    _json(folder / "meta.json", {"session": str(session.id), "stage": stage, "states": [step.state for step in steps]})
    _json(folder / "input.json", {step.model: step.prompt for step in steps if step.role == "member"})
    _json(folder / "config.json", pinned)
    is_last = stage == session.steps[-1].stage
    _json(folder / "output.json", {"answer": session.answer} if is_last else {step.model: step.text for step in steps})
    for step in steps:
        suffix = "" if step.role == "member" else f".{step.role}"
        _json(folder / "members" / f"{_file_name(step.model)}{suffix}.json", step.model_dump(mode="json"))


def _json(path: Path, value: JsonValue) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _file_name(name: str) -> str:
    """Return a name in the characters of file names."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100].lstrip(".") or "unnamed"
