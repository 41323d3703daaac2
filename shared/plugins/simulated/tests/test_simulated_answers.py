"""What the simulated engine declares is what it plans to send, event by event; pure, no clock."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_simulated.answers import Answer, answer, fail, is_chosen_to_fail, request_digest
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.streams import STREAMS, TRUTH, parse_simulation

MS = 1_000_000
REQUEST: dict[str, JsonValue] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "two words"}, {"type": "image_url"}]}],
}


def _answer(simulation: Simulation, **more: JsonValue) -> Answer:
    return answer(simulation, {**REQUEST, **more}, request_digest(b"x", simulation.seed))


def _tokens_at(made: Answer) -> list[tuple[float, str, int]]:
    return [(write.offset_ns / MS, kind, count) for write in made.writes for kind, count in write.events if count > 0]


def _payloads(made: Answer) -> list[dict[str, Any]]:
    data = b"".join(write.data for write in made.writes).decode()
    return [json.loads(line[6:]) for line in data.split("\r\n") if line.startswith("data: {")]


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


def test_a_role_chunk_comes_where_it_is_declared() -> None:
    at_headers = _answer(STREAMS["role_at_headers"]).writes[0]
    assert (at_headers.offset_ns, at_headers.events) == (0, (("role", 0),))
    with_first = _answer(STREAMS["role_with_first"]).writes[1]
    assert with_first.events == (("role", 0), ("content", 1))


def test_the_first_half_can_be_reasoning() -> None:
    kinds = [kind for _, kind, _ in _tokens_at(_answer(STREAMS["half_reasoning"]))]
    assert kinds == ["reasoning"] * 16 + ["content"] * 16


def test_tokens_share_events_and_events_share_writes() -> None:
    assert _tokens_at(_answer(STREAMS["four_tokens_per_event"]))[1] == (140.0, "content", 4)
    together = _answer(STREAMS["four_events_per_write"]).writes[1]
    assert together.events == (("content", 1),) * 4


def test_usage_comes_as_late_as_declared() -> None:
    last = _answer(STREAMS["late_tail"]).writes[-1]
    assert last.offset_ns == (100 + 31 * 10 + 300) * MS
    assert last.events == (("usage", 0),)
    assert last.data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_at_zero_model_time_the_answer_is_one_write() -> None:
    assert len(_answer(Simulation()).writes) == 1


def test_usage_is_sent_where_it_is_asked_for() -> None:
    assert "usage" not in _payloads(_answer(Simulation()))[-1]
    usage = _payloads(_answer(Simulation(tokens=3), stream_options={"include_usage": True}))[-1]["usage"]
    assert usage == {"prompt_tokens": 2 + 64, "completion_tokens": 3, "total_tokens": 69}


def test_max_tokens_cuts_the_answer() -> None:
    made = _answer(Simulation(tokens=9), max_tokens=2, stream=False)
    body = json.loads(made.writes[0].data.partition(b"\r\n\r\n")[2])
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 2
    assert len(body["choices"][0]["message"]["content"].split()) == 2


def test_a_declared_answer_is_given_word_by_word() -> None:
    made = _answer(Simulation(answer='{"total":  "1.00"}'))
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in _payloads(made)]
    assert "".join(texts) == '{"total":  "1.00"}'


def test_a_whole_answer_leaves_when_its_last_token_would() -> None:
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


def test_a_simulation_is_read_from_parameters() -> None:
    read = parse_simulation({"stream": "late_tail", "tokens": 8})
    assert (read.tail_ms, read.tokens) == (300.0, 8)
    assert parse_simulation({}) == Simulation()


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"tokns": 1}, "Did you mean tokens"),
        ({"zzz": 1}, "Known: "),
        ({"tokens": 1.5}, "a whole number"),
        ({"tokens": True}, "a whole number"),
        ({"tokens": 0}, "between 1 and"),
        ({"ttft_ms": "1"}, "a finite number"),
        ({"ttft_ms": -1}, "between 0 and"),
        ({"role_chunk": "late"}, "one of none, with_first, at_headers"),
        ({"record": 1}, "true or false"),
        ({"answer": 1}, "text"),
        ({"failure_rate": 2}, "between 0 and 1"),
        ({"stream": "zzz"}, "Known: role_with_first"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(params: dict[str, JsonValue], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_simulation(params)
