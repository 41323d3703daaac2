"""What loads of a session gave up is exported with it, along the chain of sessions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.builders import run_spec
from tests.support.pipelines import stage
from vlmhyperbench.domain.pipelines import PipelineTarget
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.errors import Conflict, InvalidInput, Unavailable
from vlmhyperbench.exchange import session_archive
from vlmhyperbench.exchange.session_archive import pack_session, unpack_session
from vlmhyperbench.wire.sessions import SessionDetail, SessionLoad, SessionStage, SessionStep

CREATED = datetime(2026, 11, 1, 8, tzinfo=UTC)
STARTED = CREATED + timedelta(minutes=7)
"""It waited for its turn until then."""
STEP: dict[str, Any] = {
    "rung": "KV cache in q8_0",
    "before": "cache_type=f16",
    "after": "cache_type=q8_0",
    "is_lossy": True,
}


def session(no: int, *loads: SessionLoad) -> SessionDetail:
    step = SessionStep(no=0, stage="read", role="member", model="reader", state="done", prompt="?", text=f"blue {no}")
    return SessionDetail(
        id=UUID(int=no),
        pipeline="p",
        name="s",
        state=RunState.SUCCEEDED,
        parent_run_id=None,
        created_at=CREATED,
        started_at=STARTED,
        finished_at=None,
        question="?",
        images=[],
        steps=[step],
        loads=[*loads],
        stages=[SessionStage(id="read", status="ok", value=f"blue {no}", n_valid=1)],
        answer=f"blue {no}",
        error=None,
        latency_s=None,
        compute_s=None,
    )


def spec() -> RunSpec:
    target = PipelineTarget(pipeline="p", version="1.0.0", stages=(stage("read", "reader"),))
    return run_spec().model_copy(update={"target": target})


def test_a_session_of_the_base_pipeline_says_so(tmp_path: Path) -> None:
    asked = session(1).model_copy(update={"pipeline": "base"})
    path = unpack_session(pack_session([(asked, spec())]), tmp_path)
    assert json.loads((path / "session_meta.json").read_text())["mode"] == "base"


def test_the_loads_of_every_session_of_the_chain_are_its_fallbacks(tmp_path: Path) -> None:
    load = SessionLoad(stage="read", role="member", model="reader", fallbacks=[STEP])
    pinned = spec()
    path = unpack_session(pack_session([(session(1, load), pinned), (session(2), pinned)]), tmp_path)
    assert path.parent == tmp_path / "sessions"
    meta = json.loads((path / "session_meta.json").read_text())
    assert (meta["mode"], meta["started_at"]) == ("named", STARTED.isoformat())
    assert meta["fallbacks"] == [{"stage": "read", "role": "member", "model": "reader", "fallbacks": [STEP]}]
    assert meta["sessions"] == [str(UUID(int=1)), str(UUID(int=2))]
    assert json.loads((path / "read_v2" / "output.json").read_text()) == {
        "answer": "blue 2", "status": "ok", "reason": None, "n_valid": 1, "support": None, "confidence": None,
        "margin": None, "tie": None, "dissent": [],
    }  # fmt: skip
    assert json.loads((path / "read_v2" / "config.json").read_text())["id"] == "read"


def test_steps_whose_names_are_one_file_name_are_all_written(tmp_path: Path) -> None:
    names = ["org/reader", "org reader", "ORG-READER", "org-reader~2"]
    asked = session(1)
    step = asked.steps[0]
    steps = [step.model_copy(update={"no": no, "model": name, "text": name}) for no, name in enumerate(names)]
    merged = step.model_copy(update={"no": 4, "model": names[0], "role": "merge", "text": "merged"})
    path = unpack_session(pack_session([(asked.model_copy(update={"steps": [*steps, merged]}), spec())]), tmp_path)
    written = [json.loads(file.read_text())["text"] for file in (path / "read_v1" / "members").iterdir()]
    assert sorted(written) == sorted([*names, "merged"])


def test_a_folder_that_is_there_stays_as_it_is_and_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    packed = pack_session([(session(1), spec())])
    path = unpack_session(packed, tmp_path)
    (path / "final.txt").write_text("mine")
    with pytest.raises(Conflict):
        unpack_session(packed, tmp_path)
    assert (path / "final.txt").read_text() == "mine"
    for wrong in (b"", b"<html>", packed[:-30]):
        with pytest.raises(Unavailable):
            unpack_session(wrong, tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        unpack_session(packed, tmp_path / "file")
    assert [each.name for each in (tmp_path / "sessions").iterdir()] == [path.name]


def test_an_archive_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_archive, "MAX_BYTES", 1000)
    with pytest.raises(InvalidInput) as refused:
        pack_session([(session(1), spec())])
    assert refused.value.code == "export_too_large"
