"""Calls about sessions: questions to a pipeline."""

from __future__ import annotations

from collections.abc import Collection

from vlmhyperbench.client.call import Call, Id, id_text, page_call, post_call
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench.wire.sessions import Session, SessionCreate, SessionDetail, SessionRerun


def ask(question: SessionCreate, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Ask a pipeline a question that was uploaded as a file of answers."""
    return post_call("/pipelines/sessions", RunDetail, question, idempotency_key)


def ask_again(run_id: Id, stage: SessionRerun, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Ask the models of one stage of a session again, in a new session."""
    return post_call(f"/pipelines/sessions/{id_text(run_id)}/rerun", RunDetail, stage, idempotency_key)


def list_sessions(*, limit: int = 50, cursor: str | None = None) -> Call[Page[Session]]:
    """List sessions, newest first."""
    return page_call("/pipelines/sessions", Page[Session], limit=limit, cursor=cursor)


def get_session(run_id: Id, *, without: Collection[int] = ()) -> Call[SessionDetail]:
    """Return a session with what each step answered so far; `without` are positions of steps that are not wanted."""
    return page_call(f"/pipelines/sessions/{id_text(run_id)}", SessionDetail, without=sorted(without))
