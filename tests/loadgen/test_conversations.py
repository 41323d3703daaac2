"""Conversations: each turn is sent after the previous answer and quotes all earlier answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadgen.driving import Driven, read_request, respond, run, serving, whole
from tests.support.wording import Wording
from vlmhyperbench.load.plan import write_bodies, write_plan
from vlmhyperbench_loadgen.conversations import build_body, make_conversations
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.plan import read_plan
from vlmhyperbench_loadgen.table import PLACE_DTYPE as CHILD_PLACES
from vlmhyperbench_loadgen.table import TURN_DTYPE as CHILD_TURNS
from vlmhyperbench_loadgen.table import Quotation, Request, read_quotations, read_turns
from vlmhyperbench_sdk.load import PLACE_DTYPE, PLAN_VERSION, TURN_DTYPE, Endpoint, LoadLimits, LoadPlan, PhasePlan

pytestmark = pytest.mark.anyio

MS = 1_000_000
URL = "http://127.0.0.1:1/v1/chat/completions"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def turn_body(conversation: int, turn: int) -> bytes:
    """Write the messages of a conversation up to a turn, with an empty answer after each earlier turn."""
    messages = []
    for number in range(turn + 1):
        messages.append({"role": "user", "content": f"question {number} of {conversation}"})
        if number < turn:
            messages.append({"role": "assistant", "content": ""})
    return json.dumps({"model": "simulated", "messages": messages}).encode()


def offsets_in(body: bytes) -> list[int]:
    """Return the offsets of the closing quotes of empty strings."""
    return [at + 1 for at in range(len(body)) if body[at : at + 2] == b'""']


def write_conversations(
    folder: Path,
    url: str,
    *,
    conversations: int,
    turns: int,
    in_flight: int = 1,
    think_ns: int = 0,
    processes: int = 1,
    changes: Mapping[str, object] | None = None,
) -> None:
    """Write a plan of one phase, number 1; ordinals count over all turns of conversations 10, 11, …"""
    pairs = [(conversation, turn) for conversation in range(conversations) for turn in range(turns)]
    bodies = [turn_body(conversation, turn) for conversation, turn in pairs]
    requests = write_bodies(folder, bodies, phase=1)
    requests["sample"], requests["turn"] = np.array(pairs).T
    requests["think_ns"] = np.where(requests["turn"] > 0, think_ns, 0)
    phase: dict[str, Any] = {"no": 1, "kind": "interactive", "params": {"in_flight": in_flight}, **(changes or {})}
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=(PhasePlan(count=len(requests), **phase),),
        endpoint=Endpoint(url=url),
        limits=LoadLimits(request_timeout_s=60.0),
        seed=7,
        processes=processes,
    )
    np.save(
        folder / "turns.npy",
        np.array([(1, ordinal, 10 + number) for ordinal, (number, _) in enumerate(pairs)], dtype=TURN_DTYPE),
    )
    rows = [
        (1, ordinal, answer_of, offset)
        for ordinal, body in enumerate(bodies)
        for answer_of, offset in enumerate(offsets_in(body))
    ]
    np.save(folder / "places.npy", np.array(rows, dtype=PLACE_DTYPE))
    write_plan(folder, plan=plan, requests=requests)


class RecordingServer:
    """Gives the answer of each turn, and records the messages of each request."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.received: list[list[str]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        del number
        while True:
            request = json.loads(await read_request(reader))
            messages = [message["content"] for message in request["messages"]]
            self.received.append(messages)
            writer.write(self.answers[len(messages) // 2])


async def converse(tmp_path: Path, answers: Sequence[bytes], **options: int) -> tuple[Driven, list[list[str]]]:
    """Run conversations; return the record, and the messages of each request."""
    server = RecordingServer(answers)
    async with serving(server) as url:
        write_conversations(tmp_path / "plan", url, **options)
        return await run(tmp_path), server.received


def test_the_columns_are_those_of_the_contract() -> None:
    assert (list(CHILD_TURNS), list(CHILD_PLACES)) == (TURN_DTYPE, PLACE_DTYPE)


async def test_a_turn_quotes_the_answers_before_it(tmp_path: Path) -> None:
    odd = 'a "quoted"\nline \\ with ü and 🌿'
    driven, received = await converse(tmp_path, [whole(odd), whole("second"), whole("third")], conversations=1, turns=3)
    assert received == [
        ["question 0 of 0"],
        ["question 0 of 0", odd, "question 1 of 0"],
        ["question 0 of 0", odd, "question 1 of 0", "second", "question 2 of 0"],
    ]
    assert [(row["conversation"], row["turn"], row["status"]) for row in driven.rows] == [
        (10, 0, "ok"),
        (10, 1, "ok"),
        (10, 2, "ok"),
    ]
    first, *later = driven.rows
    assert first["build_ns"] is None
    assert all(row["build_ns"] > 0 for row in later)


async def test_a_turn_is_due_a_think_time_after_the_previous_answer(tmp_path: Path) -> None:
    answers = [whole("a"), whole("b"), whole("c")]
    driven, _ = await converse(tmp_path, answers, conversations=2, turns=3, think_ns=30 * MS)
    rows = driven.rows
    for before, after in pairwise(rows):
        if after["turn"]:
            assert after["scheduled_ns"] == before["stream_end_ns"] + 30 * MS
            assert after["sent_ns"] >= after["scheduled_ns"]


async def test_a_stream_ends_a_conversation_before_it_takes_the_next(tmp_path: Path) -> None:
    driven, received = await converse(tmp_path, [whole("a"), whole("b")], conversations=3, turns=2)
    questions = [f"question {turn} of {number}" for number in range(3) for turn in range(2)]
    assert [messages[-1] for messages in received] == questions
    assert {row["stream"] for row in driven.rows} == {0}


async def test_conversations_are_shared_among_streams_and_processes(tmp_path: Path) -> None:
    answers = [whole("a"), whole("b")]
    driven, received = await converse(tmp_path, answers, conversations=9, turns=2, in_flight=4, processes=2)
    assert driven.end.outcome == "complete"
    questions = sorted(f"question {turn} of {number}" for number in range(9) for turn in (0, 1))
    assert sorted(messages[-1] for messages in received) == questions
    streams: dict[int, set[int]] = {}
    for row in driven.rows:
        streams.setdefault(row["conversation"], set()).add(row["stream"])
    assert [len(indexes) for indexes in streams.values()] == [1] * 9


async def test_the_turns_after_a_failed_turn_are_recorded_and_not_sent(tmp_path: Path, wording: Wording) -> None:
    refusal = respond(b'{"error": {"message": "no"}}', status="500 X")
    answers = [whole("a"), refusal, whole("c"), whole("d")]
    driven, received = await converse(tmp_path, answers, conversations=2, turns=4)
    assert len(received) == 4
    rows = driven.rows
    assert [row["status"] for row in rows] == ["ok", "error", "skipped", "skipped"] * 2
    skipped = rows[2]
    wording(skipped["error"])
    assert (skipped["sent_ns"], skipped["tries"], skipped["http_status"], skipped["event_ns"]) == (None, 0, None, [])
    assert skipped["scheduled_ns"] == rows[1]["stream_end_ns"]
    assert driven.end.outcome == "complete"


async def test_a_failed_last_turn_skips_no_other_turn(tmp_path: Path) -> None:
    refusal = respond(b"{}", status="503 X")
    driven, _ = await converse(tmp_path, [whole("a"), refusal], conversations=2, turns=2)
    assert [row["status"] for row in driven.rows] == ["ok", "error"] * 2


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_every_answer_is_quoted_in_the_next_body_as_json(answers: list[str]) -> None:
    answers = [answer.encode("utf-8", "replace").decode() for answer in answers]
    body = turn_body(0, len(answers))
    quotations = [Quotation(number, offset) for number, offset in enumerate(offsets_in(body))]
    built = json.loads(bytes(build_body(memoryview(body), quotations, answers)))
    quoted = [message["content"] for message in built["messages"] if message["role"] == "assistant"]
    assert quoted == answers


def test_an_answer_may_be_quoted_twice_or_never() -> None:
    body = b'["","",""]'
    quotations = [Quotation(1, 2), Quotation(1, 8)]
    assert bytes(build_body(memoryview(body), quotations, ["no", "yes"])) == b'["yes","","yes"]'


def test_a_plan_without_conversations_needs_no_tables_of_them(tmp_path: Path) -> None:
    assert (read_turns(tmp_path), read_quotations(tmp_path)) == ({}, {})


def _request(turn: int, *, stream: int = -1) -> Request:
    return Request(1, turn, 0, 0, turn, 0, stream, 0, 9, 0, -1, -1, b"")


@pytest.mark.parametrize(
    ("requests", "quotations"),
    [
        pytest.param([_request(0), _request(2)], {}, id="missing turn"),
        pytest.param([_request(1)], {}, id="no first turn"),
        pytest.param([_request(0), _request(1, stream=3)], {}, id="two streams"),
        pytest.param([_request(0), _request(1)], {(1, 1): [Quotation(1, 5)]}, id="quotes itself"),
        pytest.param([_request(0), _request(1)], {(1, 1): [Quotation(0, 5), Quotation(0, 5)]}, id="same offset twice"),
        pytest.param([_request(0), _request(1)], {(1, 1): [Quotation(0, 9)]}, id="after the body"),
        pytest.param([_request(0), _request(1)], {(1, 1): [Quotation(0, 0)]}, id="before the body"),
    ],
)
def test_impossible_conversations_are_refused(
    requests: list[Request], quotations: dict[tuple[int, int], list[Quotation]], wording: Wording
) -> None:
    turns = {(request.phase, request.ordinal): 0 for request in requests}
    with pytest.raises(PlanError) as refused:
        make_conversations(requests, turns, quotations)
    wording(refused.value)


def test_a_request_without_a_conversation_is_refused(wording: Wording) -> None:
    with pytest.raises(PlanError) as refused:
        make_conversations([_request(0), _request(1)], {(1, 0): 0}, {})
    wording(refused.value)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param("turns.npy", np.array([(1, 0, 0)], dtype=TURN_DTYPE), id="turn without conversation"),
        pytest.param("turns.npy", np.array([(1, 0, 0), (1, 0, 1)], dtype=TURN_DTYPE), id="turn twice"),
        pytest.param("turns.npy", np.array([(1, 0, -1)], dtype=TURN_DTYPE), id="negative conversation"),
        pytest.param(
            "turns.npy", np.array([(1, 0, 0), (1, 1, 0), (1, 99, 0)], dtype=TURN_DTYPE), id="turn of no request"
        ),
        pytest.param("turns.npy", np.zeros(2), id="other columns"),
        pytest.param("places.npy", np.array([(1, 99, 0, 1)], dtype=PLACE_DTYPE), id="quotation of no turn"),
        pytest.param("places.npy", np.array([(1, 1, 0, 3)], dtype=PLACE_DTYPE), id="no empty string"),
    ],
)
def test_tables_that_contradict_the_plan_are_refused(
    tmp_path: Path, name: str, rows: np.ndarray, wording: Wording
) -> None:
    write_conversations(tmp_path, URL, conversations=1, turns=2)
    np.save(tmp_path / name, rows)
    with pytest.raises(PlanError) as refused:
        read_plan(tmp_path)
    wording(refused.value)


@pytest.mark.parametrize("kind", ["offline", "accuracy"])
def test_other_kinds_of_phases_have_no_conversations(tmp_path: Path, kind: str, wording: Wording) -> None:
    write_conversations(tmp_path, URL, conversations=1, turns=2, changes={"kind": kind})
    with pytest.raises(PlanError) as refused:
        read_plan(tmp_path)
    wording(refused.value)


def test_the_hash_of_the_tables_covers_conversations(tmp_path: Path) -> None:
    write_conversations(tmp_path, URL, conversations=2, turns=2)
    before = read_plan(tmp_path).schedule_sha256
    turns = np.load(tmp_path / "turns.npy")
    turns["conversation"] += 1
    np.save(tmp_path / "turns.npy", turns)
    assert read_plan(tmp_path).schedule_sha256 != before
