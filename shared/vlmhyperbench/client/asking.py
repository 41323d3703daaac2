"""Calls about pipelines, and about sessions, which are questions to them."""

from __future__ import annotations

from collections.abc import Collection

from vlmhyperbench.client.call import Call, Id, get_call, id_text, page_call, post_call
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.pipelines import PipelineCheck, PipelineDraft, PipelinePlan, PipelineStatus
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench.wire.sessions import Session, SessionCreate, SessionDetail, SessionRerun


def ask(question: SessionCreate, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Ask a pipeline a question that was uploaded as a file of answers."""
    return post_call("/pipelines/sessions", RunDetail, question, idempotency_key)


def ask_again(run_id: Id, stage: SessionRerun, *, idempotency_key: str | None = None) -> Call[RunDetail]:
    """Ask the models of one stage of a session again, in a new session."""
    return post_call(f"/pipelines/sessions/{id_text(run_id)}/rerun", RunDetail, stage, idempotency_key)


def list_sessions(
    *, pipeline: str | None = None, state: str | None = None, limit: int = 50, cursor: str | None = None
) -> Call[Page[Session]]:
    """List sessions, newest first: of all pipelines or one, in every state or one."""
    return page_call("/pipelines/sessions", Page[Session], pipeline=pipeline, state=state, limit=limit, cursor=cursor)


def get_session(run_id: Id, *, without: Collection[int] = ()) -> Call[SessionDetail]:
    """Return a session with what each step answered so far; `without` are positions of steps that are not wanted."""
    return page_call(f"/pipelines/sessions/{id_text(run_id)}", SessionDetail, without=sorted(without))


def export_session(run_id: Id) -> Call[bytes]:
    """Return a zip archive of an ended session with those that it was made from: a folder of their files."""
    return Call(method="GET", path=f"/pipelines/sessions/{id_text(run_id)}/export", read=bytes)


def list_pipelines() -> Call[Page[PipelineStatus]]:
    """List the registered pipelines, the base pipeline first, with every reason why one cannot start."""
    return get_call("/pipelines", Page[PipelineStatus])


def check_pipeline(draft: PipelineDraft) -> Call[PipelineCheck]:
    """Check a pipeline that is not saved: all problems at once, each with its stage."""
    return post_call("/pipelines/check", PipelineCheck, draft)


def plan_pipeline(draft: PipelineDraft) -> Call[PipelinePlan]:
    """Plan one question to a pipeline that need not be saved: steps, time and memory."""
    return post_call("/pipelines/plan", PipelinePlan, draft)
