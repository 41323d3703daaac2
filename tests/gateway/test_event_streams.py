"""Reading a stream while it passes: whole events, times, and the performance block."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_gateway.memory import UNKNOWN, VramWatch
from vlmhyperbench_gateway.streams import EventSplitter, Meter, Passage, payload_of

MS = 1_000_000
DONE = b"data: [DONE]\n\n"
EVENTS = [b"data: 1\n\n", b": note\n\n", b"data: two\nid: 3\n\n", b"data: x\r\n\r\n"]


def _chunk(**delta: object) -> bytes:
    return b"data: " + json.dumps({"id": "a", "choices": [{"delta": delta}]}).encode() + b"\n\n"


@given(
    st.lists(st.sampled_from([b"data: 1\n\n", b": note\n\n", b"data: two\nid: 3\n\n", b"data: x\r\n\r\n"])), st.data()
)
def test_events_do_not_depend_on_how_the_bytes_are_split(events: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    splitter = EventSplitter()
    received: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        received += splitter.feed(whole[start:end])
    assert received == [event.replace(b"\r\n", b"\n") for event in events]
    assert splitter.end() == b""


def test_a_byte_order_mark_before_a_stream_is_ignored() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"\xef\xbb\xbfdata: 1\n\n") == [b"data: 1\n\n"]


def test_an_incomplete_event_is_returned_at_the_end() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\n\ndata: 2") == [b"data: 1\n\n"]
    assert splitter.end() == b"data: 2"


def test_the_payload_of_an_event_is_its_data() -> None:
    assert payload_of(b"event: x\ndata: a\ndata:b\n\n") == b"a\nb"
    assert payload_of(b": comment\n\n") == b""


def _passage(meter: Meter, asked: int = 1) -> Passage:
    return Passage(meter, asked=asked, memory=lambda _: UNKNOWN)


def test_times_count_from_arrival_and_only_tokens_count() -> None:
    meter = Meter(received_ns=0, sent_ns=1 * MS)
    passage = _passage(meter)
    passage.take([_chunk(role="assistant", content="")], 10 * MS)
    passage.take([_chunk(content="a")], 20 * MS)
    passage.take([_chunk(reasoning_content="b"), b": ping\n\n"], 30 * MS)
    passage.take([_chunk(content="c")], 40 * MS)
    passage.take([b'data: {"choices": [], "usage": {"completion_tokens": 3}}\n\n'], 90 * MS)
    assert meter.performance(95 * MS, UNKNOWN) == {
        "latency_ms": 40.0,
        "ttft_ms": 20.0,
        "tpot_ms": 10.0,
        "queue_ms": 1.0,
        "vram_before_mb": None,
        "vram_peak_mb": None,
        "vram_delta_mb": None,
    }


def test_unknown_values_are_null() -> None:
    performance = Meter(received_ns=0, sent_ns=0).performance(5 * MS, UNKNOWN)
    assert (performance["latency_ms"], performance["ttft_ms"], performance["tpot_ms"]) == (5.0, None, None)


def test_performance_is_a_chunk_of_the_same_answer_before_the_end() -> None:
    passage = _passage(Meter(received_ns=0))
    events = [_chunk(content="a"), b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', DONE]
    passed = passage.take(events, 2).removesuffix(DONE)
    assert passed.startswith(events[0] + events[1])
    chunk = json.loads(payload_of(passed.removeprefix(events[0] + events[1])))
    assert (chunk["id"], chunk["choices"], chunk["object"]) == ("a", [], "chat.completion.chunk")
    assert chunk["performance"]["ttft_ms"] == 2e-6
    assert passage.take([_chunk(content="no")], 3) == passage.end() == b""


def test_requested_choices_pass_unchanged_and_others_are_removed() -> None:
    passage = _passage(Meter(received_ns=0), asked=2)
    odd = b'data: {"id" : "a","choices":[ {"index":1, "delta":{"content":"\xc3\xa9 \xef\xbf\xbd NaN"}}]}\n\n'
    assert passage.take([b": ping\n\n", odd], 1) == b": ping\n\n" + odd
    mixed = b'data: {"choices":[{"index":2,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}\n\n'
    passed = json.loads(payload_of(passage.take([mixed], 1)))
    assert [choice["index"] for choice in passed["choices"]] == [0]
    assert passage.take([_chunk(content="no").replace(b'"delta"', b'"index": 7, "delta"')], 1) == b""
    usage = b'data: {"choices":[],"usage":{"completion_tokens":-1,"prompt_tokens":3}}\n\n'
    assert json.loads(payload_of(passage.take([usage], 1)))["usage"] == {"completion_tokens": None, "prompt_tokens": 3}
    assert json.loads(payload_of(passage.end()))["error"]["code"] == "incomplete_stream"
    assert passage.state == "failed"


def test_memory_is_read_from_the_samples_around_a_request() -> None:
    watch = VramWatch()
    assert watch.block(0, 10) == UNKNOWN
    for at_ns, used_mb in ((1, 100.0), (5, 300.0), (8, 200.0), (20, 900.0)):
        watch.note(at_ns, used_mb)
    assert watch.block(4, 10) == {"vram_before_mb": 100.0, "vram_peak_mb": 300.0, "vram_delta_mb": 200.0}
    assert watch.block(6, 7) == {"vram_before_mb": 300.0, "vram_peak_mb": 300.0, "vram_delta_mb": 0.0}
