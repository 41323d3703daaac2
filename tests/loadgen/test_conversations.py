"""Conversations: each turn leaves after the answer to the one before and quotes it, whatever that says."""

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
from vlmhyperbench.load.plan import write_bodies, write_plan
from vlmhyperbench_loadgen.conversations import build_body, make_conversations
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.plan import read_plan
from vlmhyperbench_loadgen.table import PLACE_DTYPE as CHILD_PLACES
from vlmhyperbench_loadgen.table import TURN_DTYPE as CHILD_TURNS
from vlmhyperbench_loadgen.table import QuotePlace, Request, read_places, read_turns
from vlmhyperbench_sdk.load import PLACE_DTYPE, PLAN_VERSION, TURN_DTYPE, Endpoint, LoadLimits, LoadPlan, PhasePlan

pytestmark = pytest.mark.anyio

MS = 1_000_000
URL = "http://127.0.0.1:1/v1/chat/completions"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def turn_body(conversation: int, turn: int) -> bytes:
    """What a user of one conversation says in turn after turn, with empty answers in between."""
    messages = []
    for number in range(turn + 1):
        messages.append({"role": "user", "content": f"question {number} of {conversation}"})
        if number < turn:
            messages.append({"role": "assistant", "content": ""})
    return json.dumps({"model": "simulated", "messages": messages}).encode()


def places_in(body: bytes) -> list[int]:
    """Offsets of the closing quotes of empty strings."""
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
    """Write a plan of one phase, number 1; the ordinal counts over turns of conversations 10, 11, …"""
    said = [(conversation, turn) for conversation in range(conversations) for turn in range(turns)]
    bodies = [turn_body(conversation, turn) for conversation, turn in said]
    requests = write_bodies(folder, bodies, phase=1)
    requests["sample"], requests["turn"] = np.array(said).T
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
        np.array([(1, ordinal, 10 + talk) for ordinal, (talk, _) in enumerate(said)], dtype=TURN_DTYPE),
    )
    rows = [
        (1, ordinal, answer_of, offset)
        for ordinal, body in enumerate(bodies)
        for answer_of, offset in enumerate(places_in(body))
    ]
    np.save(folder / "places.npy", np.array(rows, dtype=PLACE_DTYPE))
    write_plan(folder, plan=plan, requests=requests)


class Listener:
    """Answers by a script and keeps what was asked."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        del number
        while True:
            request = json.loads(await read_request(reader))
            said = [message["content"] for message in request["messages"]]
            self.asked.append(said)
            writer.write(self.answers[len(said) // 2])


async def talk(tmp_path: Path, answers: Sequence[bytes], **how: int) -> tuple[Driven, list[list[str]]]:
    listener = Listener(answers)
    async with serving(listener) as url:
        write_conversations(tmp_path / "plan", url, **how)  # type: ignore[arg-type]
        return await run(tmp_path), listener.asked


def test_the_columns_are_those_of_the_contract() -> None:
    assert (list(CHILD_TURNS), list(CHILD_PLACES)) == (TURN_DTYPE, PLACE_DTYPE)


async def test_a_turn_quotes_the_answers_before_it(tmp_path: Path) -> None:
    odd = 'a "quoted"\nline \\ with ü and 🌿'
    driven, asked = await talk(tmp_path, [whole(odd), whole("second"), whole("third")], conversations=1, turns=3)
    assert asked == [
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


async def test_a_turn_is_due_when_the_answer_before_is_thought_over(tmp_path: Path) -> None:
    driven, _ = await talk(tmp_path, [whole("a"), whole("b"), whole("c")], conversations=2, turns=3, think_ns=30 * MS)
    rows = driven.rows
    for before, after in pairwise(rows):
        if after["turn"]:
            assert after["scheduled_ns"] == before["stream_end_ns"] + 30 * MS
            assert after["sent_ns"] >= after["scheduled_ns"]


async def test_a_stream_ends_a_conversation_before_it_takes_the_next(tmp_path: Path) -> None:
    driven, asked = await talk(tmp_path, [whole("a"), whole("b")], conversations=3, turns=2)
    assert [said[-1] for said in asked] == [f"question {turn} of {number}" for number in range(3) for turn in range(2)]
    assert {row["stream"] for row in driven.rows} == {0}


async def test_conversations_are_shared_among_streams_and_processes(tmp_path: Path) -> None:
    driven, asked = await talk(tmp_path, [whole("a"), whole("b")], conversations=9, turns=2, in_flight=4, processes=2)
    assert driven.end.outcome == "complete"
    assert sorted(said[-1] for said in asked) == sorted(f"question {turn} of {n}" for n in range(9) for turn in (0, 1))
    streams: dict[int, set[int]] = {}
    for row in driven.rows:
        streams.setdefault(row["conversation"], set()).add(row["stream"])
    assert all(len(one) == 1 for one in streams.values())


async def test_a_turn_that_fails_leaves_the_later_ones_unsent_and_on_record(tmp_path: Path) -> None:
    refusal = respond(b'{"error": {"message": "no"}}', status="500 X")
    driven, asked = await talk(tmp_path, [whole("a"), refusal, whole("c"), whole("d")], conversations=2, turns=4)
    assert len(asked) == 4
    rows = driven.rows
    assert [row["status"] for row in rows] == ["ok", "error", "skipped", "skipped"] * 2
    skipped = rows[2]
    assert skipped["error"] == "conversation_ended: turn 1 came to error, so this one was never sent"
    assert (skipped["sent_ns"], skipped["tries"], skipped["http_status"], skipped["event_ns"]) == (None, 0, None, [])
    assert skipped["scheduled_ns"] == rows[1]["stream_end_ns"]
    assert driven.end.outcome == "complete"


async def test_the_last_turn_may_fail_alone(tmp_path: Path) -> None:
    refusal = respond(b"{}", status="503 X")
    driven, _ = await talk(tmp_path, [whole("a"), refusal], conversations=2, turns=2)
    assert [row["status"] for row in driven.rows] == ["ok", "error"] * 2


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_whatever_was_answered_the_next_body_is_json_that_says_it(answers: list[str]) -> None:
    answers = [answer.encode("utf-8", "replace").decode() for answer in answers]
    body = turn_body(0, len(answers))
    places = [QuotePlace(number, offset) for number, offset in enumerate(places_in(body))]
    built = json.loads(bytes(build_body(memoryview(body), places, answers)))
    said = [message["content"] for message in built["messages"] if message["role"] == "assistant"]
    assert said == answers


def test_an_answer_may_be_quoted_twice_or_never() -> None:
    body = b'["","",""]'
    places = [QuotePlace(1, 2), QuotePlace(1, 8)]
    assert bytes(build_body(memoryview(body), places, ["no", "yes"])) == b'["yes","","yes"]'


def test_a_phase_without_conversations_reads_none(tmp_path: Path) -> None:
    assert (read_turns(tmp_path), read_places(tmp_path)) == ({}, {})


def _request(turn: int, *, stream: int = -1) -> Request:
    return Request(1, turn, 0, 0, turn, 0, stream, 0, 9, 0, -1, -1, b"")


@pytest.mark.parametrize(
    ("requests", "places", "message"),
    [
        ([_request(0), _request(2)], {}, "count from 0 without a gap"),
        ([_request(1)], {}, "count from 0 without a gap"),
        ([_request(0), _request(1, stream=3)], {}, "different streams"),
        ([_request(0), _request(1)], {(1, 1): [QuotePlace(1, 5)]}, "not there yet"),
        ([_request(0), _request(1)], {(1, 1): [QuotePlace(0, 5), QuotePlace(0, 5)]}, "comes before another"),
        ([_request(0), _request(1)], {(1, 1): [QuotePlace(0, 9)]}, "outside its body"),
        ([_request(0), _request(1)], {(1, 1): [QuotePlace(0, 0)]}, "outside its body"),
    ],
)
def test_conversations_that_cannot_be_held_are_refused(
    requests: list[Request], places: dict[tuple[int, int], list[QuotePlace]], message: str
) -> None:
    turns = {(request.phase, request.ordinal): 0 for request in requests}
    with pytest.raises(PlanError, match=message):
        make_conversations(requests, turns, places)


def test_every_request_of_the_phase_belongs_to_a_conversation() -> None:
    with pytest.raises(PlanError, match="Request 1 of phase 1 belongs to no conversation"):
        make_conversations([_request(0), _request(1)], {(1, 0): 0}, {})


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("turns.npy", np.array([(1, 0, 0)], dtype=TURN_DTYPE), "that is no turn"),
        ("turns.npy", np.array([(1, 0, 0), (1, 0, 1)], dtype=TURN_DTYPE), "twice"),
        ("turns.npy", np.array([(1, 0, -1)], dtype=TURN_DTYPE), "below 0"),
        ("turns.npy", np.array([(1, 99, 0)], dtype=TURN_DTYPE), "that the plan does not have"),
        ("turns.npy", np.zeros(2), "does not have the columns phase, ordinal, conversation"),
        ("places.npy", np.array([(1, 99, 0, 1)], dtype=PLACE_DTYPE), "that is no turn"),
        ("places.npy", np.array([(1, 1, 0, 3)], dtype=PLACE_DTYPE), "no empty string that ends at 3"),
    ],
)
def test_tables_that_contradict_the_plan_are_refused(tmp_path: Path, name: str, rows: np.ndarray, message: str) -> None:
    write_conversations(tmp_path, URL, conversations=1, turns=2)
    np.save(tmp_path / name, rows)
    with pytest.raises(PlanError, match=message):
        read_plan(tmp_path)


@pytest.mark.parametrize("changes", [{"kind": "offline"}, {"kind": "accuracy"}])
def test_other_kinds_of_phases_hold_no_conversations(tmp_path: Path, changes: dict[str, object]) -> None:
    write_conversations(tmp_path, URL, conversations=1, turns=2, changes=changes)
    with pytest.raises(PlanError, match="driven as closed loops of kind baseline, interactive, warmup"):
        read_plan(tmp_path)


def test_the_hash_of_what_is_sent_covers_conversations(tmp_path: Path) -> None:
    write_conversations(tmp_path, URL, conversations=2, turns=2)
    before = read_plan(tmp_path).schedule_sha256
    turns = np.load(tmp_path / "turns.npy")
    turns["conversation"] += 1
    np.save(tmp_path / "turns.npy", turns)
    assert read_plan(tmp_path).schedule_sha256 != before
