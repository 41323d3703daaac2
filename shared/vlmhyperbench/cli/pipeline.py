"""`pipeline`: ask a pipeline of models one question; list, continue and export what was asked; serve a pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import detaching
from vlmhyperbench.cli.groups import SELECTION, SOURCE
from vlmhyperbench.cli.ls import session_table
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.pipeline_serving import serve
from vlmhyperbench.client import Client, RunHandle
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.exchange.pictures import data_url
from vlmhyperbench.exchange.session_archive import unpack_session
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.wire.live import Live, LiveEvent, Snapshot
from vlmhyperbench.wire.sessions import SessionCreate, SessionDetail, SessionRerun

app = App(name="pipeline", help="Ask a pipeline of models a question; list, continue and export sessions; serve it.")
app.command(serve)
_ENDS_OF_STEPS = frozenset({"job.done", "job.failed"})
_UNANSWERED = "it is asked"
"""Reason for which the file of a question has no answer."""


@app.command
def ask(
    pipeline: str,
    question: str,
    /,
    *,
    image: Annotated[tuple[Path, ...], Parameter(group=SOURCE, negative=())] = (),
    output: OutputFlags = TEXT,
) -> int:
    """Ask a pipeline one question, and print what each of its models answers, step by step.

    The session is a run of one sample, whose steps are all stored; it has no metrics and is on no leaderboard. On
    Ctrl-C, only this command ends. Exit code: 0 if the pipeline answered, otherwise 4.

    Example: `vlmhyperbench pipeline ask readers-vote "What is the total?" --image page.png`.

    Args:
        pipeline: Name of a registered pipeline.
        question: What is asked.
        image: File of an image that belongs to the question; may be given several times.
        output: How the output is printed.
    """
    content = _question_file(question, image)
    _, problems = validate(SessionCreate, {"pipeline": pipeline, "question": "0" * 64})
    if problems:
        raise InvalidInput(f"PIPELINE: {problems[0].message}", cure=problems[0].cure, code="usage")
    with Client() as client:
        uploaded = client.upload_answers(content)
        created = client.sessions.ask(SessionCreate(pipeline=pipeline, question=uploaded.sha256))
        return _follow(client, created, output)


@app.command
def rerun(session: str, stage: str, /, *, output: OutputFlags = TEXT) -> int:
    """Ask the models of one stage of a session again, in a new session that reuses the stages before it.

    Args:
        session: Id of a session, or its first digits.
        stage: Id of the stage.
        output: How the output is printed.
    """
    body, problems = validate(SessionRerun, {"stage": stage})
    if body is None:
        raise InvalidInput(f"STAGE: {problems[0].message}", cure=problems[0].cure, code="usage")
    with Client() as client:
        found = client.identify(session)
        return _follow(client, client.sessions.ask_again(found.id, body), output)


@app.command(name=("history", "ls"))
def history(*, limit: Annotated[int, Parameter(group=SELECTION)] = 20, output: OutputFlags = TEXT) -> int:
    """List the newest sessions.

    Args:
        limit: Maximum number of sessions.
        output: How the output is printed.
    """
    with Client() as client:
        sessions = client.sessions.list(limit=limit).items
    if output.json:
        emit("sessions", sessions)
    else:
        table(*session_table(sessions))
    return exits.OK


@app.command
def show(session: str, /, *, output: OutputFlags = TEXT) -> int:
    """Show what each step of a session answered.

    Args:
        session: Id of a session, or its first digits.
        output: How the output is printed.
    """
    with Client() as client:
        found = client.sessions.get(client.identify(session).id)
    if output.json:
        emit("session", found)
    else:
        _print_steps(found, set())
        _print_end(found)
    return exits.OK


@app.command
def export(session: str, folder: Path, /, *, output: OutputFlags = TEXT) -> int:
    """Write a session, and those that it was made from, into a new folder within FOLDER.

    Args:
        session: Id of a session that has ended, or its first digits.
        folder: Where the folder of the session is made.
        output: How the output is printed.
    """
    with Client() as client:
        path = unpack_session(client.sessions.export(client.identify(session).id), folder)
    if output.json:
        emit("exported", {"path": str(path)})
    else:
        say(str(path))
    return exits.OK


def _question_file(question: str, images: tuple[Path, ...]) -> bytes:
    """Return a file of answers with the question and its images, and without an answer.

    Raises:
        InvalidInput: the question is empty.
        NotFound: an image cannot be read.
    """
    if not question.strip():
        raise InvalidInput("The question is empty.", cure="Write what the pipeline is asked.", code="usage")
    asked = ImportedAnswer(
        key="question",
        question=question,
        references=(),
        image_urls=tuple(data_url(_read(image)) for image in images),
        error=_UNANSWERED,
    )
    file = AnswersFile(format="question", tool=None, model=None, task=None, decoding={}, answers=iter([asked]))
    with tempfile.TemporaryDirectory(prefix="vlmhb-ask-") as folder:
        path = Path(folder) / "question.jsonl"
        write_answers(path, file)
        return path.read_bytes()


def _read(image: Path) -> bytes:
    try:
        return image.read_bytes()
    except OSError as error:
        raise NotFound(
            f"The image {image} cannot be read: {error.strerror}.", cure="Give the path of a file."
        ) from error


def _follow(client: Client, created: RunHandle, output: OutputFlags) -> int:
    """Print the answers of the steps as they come, then the pipeline's; return the exit code."""
    if not output.json:
        note(f"{created.name}: asked as {created.id}", output)
    shown: set[int] = set()
    with detaching(created):
        for message in created.live():
            if not output.json and _ends_a_step(message):
                _print_steps(client.sessions.get(created.id, without=shown), shown)
    ended = client.sessions.get(created.id)
    if output.json:
        emit("session", ended)
    else:
        _print_steps(ended, shown)
        _print_end(ended)
    return exits.OK if ended.answer is not None else exits.RUN_FAILED


def _ends_a_step(message: Live) -> bool:
    """Return whether a message of the live feed says that a model has been asked."""
    if isinstance(message, Snapshot):
        return True
    event = message.event if isinstance(message, LiveEvent) else None
    return isinstance(event, Mapping) and event.get("type") in _ENDS_OF_STEPS


def _print_steps(session: SessionDetail, shown: set[int]) -> None:
    """Print what was not shown yet, and add it to what was."""
    for step in session.steps:
        if step.no in shown or step.state in ("waiting", "running"):
            continue
        shown.add(step.no)
        if step.state == "skipped":
            continue
        who = f"{step.stage}: {step.model}" + ("" if step.role == "member" else f" ({step.role})")
        time = "" if step.latency_s is None else f" ({step.latency_s:.2f} s{', reused' if step.is_reused else ''})"
        answer = step.text if step.state == "done" else f"failed: {step.error or 'no answer'}"
        say(f"{who}{time}: {answer}")


def _print_end(session: SessionDetail) -> None:
    took = "" if session.latency_s is None else f" after {session.latency_s:.1f} s"
    compute = "" if session.compute_s is None else f", compute-only critical path {session.compute_s:.2f} s"
    if session.answer is None:
        say(f"{session.pipeline} has no answer{took}: {session.error or session.state.lower()}")
    else:
        say(f"{session.pipeline}{took}{compute}:\n{session.answer}")
