"""The simulated engine plans every event as its simulation declares; pure, without a clock."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_simulated.adapter import Simulated
from vlmhyperbench_simulated.answers import PlannedAnswer, answer, fail, is_chosen_to_fail, request_digest
from vlmhyperbench_simulated.simulation import RoleChunk, Simulation
from vlmhyperbench_simulated.streams import STREAMS, TRUTH, parse_simulation
from vlmhyperbench_simulated.words import SYLLABLES, Alphabet, draw_words

MS = 1_000_000
REQUEST: dict[str, JsonValue] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "two words"}, {"type": "image_url"}]}],
}


def _answer(simulation: Simulation, **fields: JsonValue) -> PlannedAnswer:
    return answer(simulation, {**REQUEST, **fields}, request_digest(b"x", simulation.seed))


def _tokens_at(made: PlannedAnswer) -> list[tuple[float, str, int]]:
    return [(write.offset_ns / MS, kind, count) for write in made.writes for kind, count in write.events if count > 0]


def _events(made: PlannedAnswer) -> list[str]:
    """Return the events of the body, without the frames of its chunks."""
    rest = b"".join(write.data for write in made.writes).partition(b"\r\n\r\n")[2]
    body = b""
    while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
        rest = rest.partition(b"\r\n")[2]
        body, rest = body + rest[:size], rest[size + 2 :]
    return body.decode().replace("\r\n", "\n").split("\n\n")


def _payloads(made: PlannedAnswer) -> list[dict[str, Any]]:
    return [json.loads(event[6:]) for event in _events(made) if event.startswith("data: {")]


def _sent(made: PlannedAnswer) -> tuple[bytes, list[tuple[str, int]]]:
    """Return all bytes, and all events."""
    return b"".join(write.data for write in made.writes), [event for write in made.writes for event in write.events]


def _deltas(made: PlannedAnswer) -> list[dict[str, Any]]:
    return [payload["choices"][0]["delta"] for payload in _payloads(made) if payload["choices"]]


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_every_stream_has_the_same_truth(name: str) -> None:
    made = _answer(STREAMS[name])
    events = _tokens_at(made)
    assert events[0][0] == 100.0
    assert sum(count for _, _, count in events) == 32
    assert made.completion_tokens == 32
    sent = 0
    for at, _, count in events:
        assert at in {100.0 + 10.0 * sent, 100.0 + 10.0 * (sent - sent % 4)}
        sent += count


def test_a_split_event_has_the_instant_of_its_last_byte_and_is_cut_inside_a_character() -> None:
    made = _answer(STREAMS["split_character"])
    assert [(write.offset_ns / MS, len(write.events)) for write in made.writes[1:4]] == [
        (96.0, 0),
        (100.0, 1),
        (106.0, 0),
    ]
    ahead = made.writes[1].data.partition(b"\r\n")[2].removesuffix(b"\r\n")
    with pytest.raises(UnicodeDecodeError):
        ahead.decode()
    assert "".join(delta.get("content", "") for delta in _deltas(made)) == made.text


@pytest.mark.parametrize("alphabet", get_args(Alphabet))
def test_words_are_drawn_from_millions(alphabet: Alphabet) -> None:
    assert len(set(SYLLABLES[alphabet])) == 256
    words = {word for number in range(100) for word in draw_words(request_digest(b"x", number), 100, alphabet)}
    assert len(words) > 9_990
    assert all(word.removesuffix(" ").isascii() == (alphabet == "ascii") for word in words)


def test_comments_and_empty_events_are_sent_in_the_middle_of_the_waits() -> None:
    empty, comments = _answer(STREAMS["empty_deltas"]), _answer(STREAMS["comments"])
    for made in (empty, comments):
        assert [write.offset_ns / MS for write in made.writes[:5]] == [0.0, 50.0, 100.0, 105.0, 110.0]
    assert _deltas(empty).count({"content": ""}) == 32
    assert _events(comments).count(": keep-alive") == 32


def test_lines_can_end_in_crlf() -> None:
    data = b"".join(write.data for write in _answer(STREAMS["crlf"]).writes)
    assert b"data: [DONE]\r\n\r\n" in data
    assert b"\n\n" not in data


def test_every_event_can_state_the_number_of_tokens_so_far() -> None:
    running = [payload["usage"]["completion_tokens"] for payload in _payloads(_answer(STREAMS["running_usage"]))[:8]]
    assert running == [4, 8, 12, 16, 20, 24, 28, 32]


def test_the_event_of_the_last_token_can_state_reason_and_usage() -> None:
    made = _answer(STREAMS["finish_with_last"])
    last = _payloads(made)[-1]
    assert (last["choices"][0]["finish_reason"], last["usage"]["completion_tokens"]) == ("stop", 32)
    assert last["choices"][0]["delta"]["content"]
    assert [write.offset_ns / MS for write in made.writes[-2:]] == [410.0, 710.0]
    without_usage = _answer(dataclasses.replace(STREAMS["finish_with_last"], usage="never"))
    assert "usage" not in _payloads(without_usage)[-1]


def test_reasoning_can_have_its_other_name() -> None:
    deltas = _deltas(_answer(STREAMS["renamed_reasoning"]))
    assert [list(delta) for delta in deltas[:17]] == [["reasoning"]] * 16 + [["content"]]


def test_the_last_tokens_can_be_a_tool_call() -> None:
    made = _answer(STREAMS["tool_call"])
    calls = [delta["tool_calls"][0] for delta in _deltas(made) if "tool_calls" in delta]
    assert len(calls) == 16
    assert (calls[0]["id"], calls[0]["function"]["name"]) == ("call_0", "answer")
    assert "id" not in calls[1]
    assert _payloads(made)[-2]["choices"][0]["finish_reason"] == "tool_calls"
    whole = json.loads(_answer(STREAMS["tool_call"], stream=False).writes[0].data.partition(b"\r\n\r\n")[2])
    message = whole["choices"][0]["message"]
    assert len((message["content"] + message["tool_calls"][0]["function"]["arguments"]).split()) == 32


@given(
    st.integers(1, 40),
    st.sampled_from([0.0, 2.5]),
    st.sampled_from(get_args(RoleChunk)),
    st.integers(0, 50),
)
def test_the_fast_path_for_plain_streams_writes_the_same_bytes(
    tokens: int, ttft: float, role: RoleChunk, reasoning: int
) -> None:
    plain = Simulation(
        ttft_ms=ttft, gap_ms=1.5, tokens=tokens, role_chunk=role, reasoning_tokens=reasoning, usage="always"
    )
    # A simulation with two events per write takes the general path; only its instants differ.
    general = dataclasses.replace(plain, events_per_write=2, tokens_per_event=1)
    assert _sent(_answer(plain)) == _sent(_answer(general))
    assert _tokens_at(_answer(plain)) == [
        (ttft + 1.5 * token, "reasoning" if token < reasoning else "content", 1) for token in range(tokens)
    ]


def test_a_role_chunk_is_sent_as_declared() -> None:
    at_headers = _answer(STREAMS["role_at_headers"]).writes[0]
    assert (at_headers.offset_ns, at_headers.events) == (0, (("role", 0),))
    with_first = _answer(STREAMS["role_with_first"]).writes[1]
    assert with_first.events == (("role", 0), ("content", 1))


def test_the_first_half_can_be_reasoning() -> None:
    kinds = [kind for _, kind, _ in _tokens_at(_answer(STREAMS["half_reasoning"]))]
    assert kinds == ["reasoning"] * 16 + ["content"] * 16


def test_an_event_can_hold_several_tokens_and_a_write_several_events() -> None:
    assert _tokens_at(_answer(STREAMS["four_tokens_per_event"]))[1] == (140.0, "content", 4)
    together = _answer(STREAMS["four_events_per_write"]).writes[1]
    assert together.events == (("content", 1),) * 4


def test_usage_is_sent_as_late_as_declared() -> None:
    last = _answer(STREAMS["late_tail"]).writes[-1]
    assert last.offset_ns == (100 + 31 * 10 + 300) * MS
    assert last.events == (("usage", 0),)
    assert last.data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_at_zero_model_time_the_answer_is_one_write() -> None:
    assert len(_answer(Simulation()).writes) == 1


def test_usage_is_sent_if_the_request_includes_it() -> None:
    assert "usage" not in _payloads(_answer(Simulation()))[-1]
    usage = _payloads(_answer(Simulation(tokens=3), stream_options={"include_usage": True}))[-1]["usage"]
    assert usage == {"prompt_tokens": 2 + 64, "completion_tokens": 3, "total_tokens": 69}


def test_max_tokens_cuts_the_answer() -> None:
    made = _answer(Simulation(tokens=9), max_tokens=2, stream=False)
    body = json.loads(made.writes[0].data.partition(b"\r\n\r\n")[2])
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 2
    assert len(body["choices"][0]["message"]["content"].split()) == 2


def test_a_declared_answer_is_sent_word_by_word() -> None:
    made = _answer(Simulation(answer='{"total":  "1.00"}'))
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in _payloads(made)]
    assert "".join(texts) == '{"total":  "1.00"}'


def test_a_whole_answer_is_sent_at_the_instant_of_its_last_token() -> None:
    made = _answer(TRUTH, stream=False)
    assert [write.offset_ns for write in made.writes] == [410 * MS]


def test_the_same_request_fails_always_or_never() -> None:
    chosen = [is_chosen_to_fail(request_digest(str(i).encode(), 7), 0.25) for i in range(2000)]
    assert 400 < sum(chosen) < 600
    assert chosen == [is_chosen_to_fail(request_digest(str(i).encode(), 7), 0.25) for i in range(2000)]
    assert chosen != [is_chosen_to_fail(request_digest(str(i).encode(), 8), 0.25) for i in range(2000)]
    assert not is_chosen_to_fail(b"\0" * 32, 0.0)
    assert is_chosen_to_fail(b"\xff" * 32, 1.0)


def test_a_failure_is_a_status_a_reset_or_a_cut() -> None:
    digest = request_digest(b"x", 0)
    status = fail(Simulation(failure_status=429), REQUEST, digest)
    assert (status.status, status.closes) == (429, False)
    reset = fail(Simulation(failure="reset"), REQUEST, digest)
    assert (reset.writes, reset.closes) == ((), True)
    cut = fail(dataclasses.replace(TRUTH, failure="cut"), REQUEST, digest)
    assert cut.closes
    assert 0 < len(cut.writes) < len(_answer(TRUTH).writes)
    short = fail(Simulation(failure="cut"), REQUEST, digest)
    assert b"[DONE]" not in short.writes[0].data


def test_a_simulation_is_parsed_from_parameters() -> None:
    parsed = parse_simulation({"stream": "late_tail", "tokens": 8})
    assert (parsed.tail_ms, parsed.tokens) == (300.0, 8)
    assert parse_simulation({}) == Simulation()
    assert (parse_simulation({"seed": None}).seed, parse_simulation({"seed": 3}).seed) == (None, 3)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"tokns": 1}, "Did you mean tokens"),
        ({"zzz": 1}, "Choose one of "),
        ({"tokens": 1.5}, "a whole number"),
        ({"tokens": True}, "a whole number"),
        ({"tokens": 0}, "between 1 and"),
        ({"ttft_ms": "1"}, "a finite number"),
        ({"ttft_ms": -1}, "between 0 and"),
        ({"role_chunk": "late"}, "one of none, with_first, at_headers"),
        ({"record": 1}, "true or false"),
        ({"seed": "1"}, "a whole number"),
        ({"answer": 1}, "text"),
        ({"failure_rate": 2}, "between 0 and 1"),
        ({"stream": "zzz"}, "Choose one of role_with_first"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(params: dict[str, JsonValue], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_simulation(params)


@pytest.mark.parametrize(("params", "seed"), [({}, 0), ({"seed": 3}, 3), ({"seed": None}, None)])
def test_the_engine_of_a_run_repeats_its_answers_unless_its_seed_is_null(
    params: dict[str, JsonValue], seed: int | None
) -> None:
    load = LoadRequest(model="m", backend_class="simulated", engine_params=params)
    planned = Simulated().plan_engine(load, port=1, python="python")
    assert isinstance(planned, EngineLaunch)
    assert parse_simulation(json.loads(planned.argv[-1])).seed == seed
