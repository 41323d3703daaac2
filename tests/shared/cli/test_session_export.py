"""What loads of a session gave up is exported with it, along the chain of sessions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from vlmhyperbench.cli.session_export import _write
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.wire.sessions import SessionDetail, SessionLoad, SessionStep

STEP: dict[str, Any] = {
    "rung": "KV cache in q8_0",
    "before": "cache_type=f16",
    "after": "cache_type=q8_0",
    "is_lossy": True,
}


class PinnedSpec:
    """The spec of a run with one stage."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"target": {"stages": [{"id": "read"}]}}


class PinnedRun:
    spec = PinnedSpec()


def session(no: int, *loads: SessionLoad) -> SessionDetail:
    step = SessionStep(no=0, stage="read", role="member", model="reader", state="done", prompt="?", text=f"blue {no}")
    return SessionDetail(
        id=UUID(int=no),
        pipeline="p",
        name="s",
        state=RunState.SUCCEEDED,
        parent_run_id=None,
        created_at=datetime.now(UTC),
        finished_at=None,
        question="?",
        images=[],
        steps=[step],
        loads=[*loads],
        answer=f"blue {no}",
        error=None,
        latency_s=None,
        compute_s=None,
    )


def test_the_loads_of_every_session_of_the_chain_are_its_fallbacks(tmp_path: Path) -> None:
    load = SessionLoad(stage="read", role="member", model="reader", fallbacks=[STEP])
    chain: Any = [(session(1, load), PinnedRun()), (session(2), PinnedRun())]
    _write(tmp_path, chain)
    meta = json.loads((tmp_path / "session_meta.json").read_text())
    assert meta["fallbacks"] == [{"stage": "read", "role": "member", "model": "reader", "fallbacks": [STEP]}]
    assert meta["sessions"] == [str(UUID(int=1)), str(UUID(int=2))]
    assert json.loads((tmp_path / "read_v2" / "output.json").read_text()) == {"answer": "blue 2"}
