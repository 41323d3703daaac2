"""The content of requests: synthetic images, traces and conversations, and their errors."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.shared.load.queueing import workload
from tests.support.wording import Wording
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.bodies import Images, RequestContent, make_bodies, make_turns
from vlmhyperbench.load.images import noise_png, parse_size, parse_sizes
from vlmhyperbench.load.trace import TracedRequest, read_trace
from vlmhyperbench.load.workload import check_load
from vlmhyperbench.load.writing import write_load
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.load import Endpoint


@pytest.mark.parametrize("size", [(1, 1), (200, 7), (64, 64), (1024, 768)])
def test_an_image_has_the_requested_size(size: tuple[int, int]) -> None:
    data = noise_png(*size, seed=1)
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        assert (image.size, image.mode, image.format) == (size, "RGB", "PNG")
    assert data == noise_png(*size, seed=1)
    assert data != noise_png(*size, seed=2)
    assert len(data) < 40_000


def test_a_size_is_read() -> None:
    assert parse_size("1024X768") == (1024, 768)


@pytest.mark.parametrize("text", ["", "12", "x5", "5x", "-1x5", "1.5x2", "²x2"])
def test_text_that_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(repr(text))):
        parse_size(text)


def test_an_image_that_is_too_large_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput, match="100000x1") as refused:
        noise_png(100_000, 1, seed=0)
    wording(refused.value)


def test_a_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp_s": 1, "prompt_tokens": 5, "output_tokens": 2}\n\n{"timestamp_s": 2.5, "user": 1}\n')
    assert read_trace(path) == [
        TracedRequest(timestamp_s=1.0, prompt_tokens=5, output_tokens=2),
        TracedRequest(timestamp_s=2.5),
    ]


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("", "trace.jsonl"),
        ("hello", "trace.jsonl:1"),
        ('{"timestamp_s": 1}\n[]', "trace.jsonl:2"),
        ("{}", "trace.jsonl:1: timestamp_s"),
        ('{"timestamp_s": true}', "trace.jsonl:1: timestamp_s"),
        ('{"timestamp_s": 1}\n{"timestamp_s": 1%s}' % ("0" * 400), "trace.jsonl:2: timestamp_s"),
        ('{"timestamp_s": -1e16}', "trace.jsonl:1: timestamp_s"),
        ('{"timestamp_s": 1e400}', "trace.jsonl:1: timestamp_s"),
        ('{"timestamp_s": NaN}', "trace.jsonl:1: timestamp_s"),
        ('{"timestamp_s": 1%s}' % ("0" * 5000), "trace.jsonl:1"),
        ("[" * 100_000, "trace.jsonl:1"),
        ('{"timestamp_s": 1, "prompt_tokens": 0}', "trace.jsonl:1: prompt_tokens"),
        ('{"timestamp_s": 1, "output_tokens": "5"}', "trace.jsonl:1: output_tokens"),
    ],
    ids=[
        "empty", "not JSON", "not an object", "missing", "not a number", "too large", "too small", "infinite", "NaN",
        "endless", "too deep", "no tokens", "tokens as text",
    ],
)  # fmt: skip
def test_the_error_of_a_broken_trace_names_its_line(tmp_path: Path, text: str, location: str, wording: Wording) -> None:
    (tmp_path / "trace.jsonl").write_text(text)
    with pytest.raises(InvalidInput, match=location) as refused:
        read_trace(tmp_path / "trace.jsonl")
    wording(refused.value)


def test_a_trace_that_cannot_be_read_is_named(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(NotFound, match=r"nothing\.jsonl") as missing:
        read_trace(tmp_path / "nothing.jsonl")
    wording(missing.value)
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_trace(tmp_path / "bytes")


def test_sizes_are_read(wording: Wording) -> None:
    assert parse_sizes("512x512, 1024x768") == ((512, 512), (1024, 768))
    with pytest.raises(InvalidInput, match="''") as refused:
        parse_sizes("512x512,")
    wording(refused.value)


def test_a_turn_contains_an_empty_string_for_each_earlier_answer() -> None:
    content = RequestContent(model='m "x"', prompt='ein "Häuschen"\n', media=("data:image/png;base64,AA==",))
    turns = list(make_turns(content, conversations=2, turns=3, seed=1))
    assert [(turn.conversation, turn.turn, len(turn.answer_offsets)) for turn in turns] == [
        (0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 1), (1, 2, 2),
    ]  # fmt: skip
    for turn in turns:
        messages = json.loads(turn.body)["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"] * turn.turn + ["user"]
        assert [message["content"] for message in messages[1::2]] == [""] * turn.turn
        assert all(turn.body[offset - 1 : offset + 1] == b'""' for offset in turn.answer_offsets)
        assert list(turn.answer_offsets) == sorted(set(turn.answer_offsets))
        # The image is in the first message, and the earlier messages are repeated.
        assert [part["type"] for part in messages[0]["content"]] == ["image_url", "text"]
        assert messages[2:4:2] == [{"role": "user", "content": f"{content.prompt} (2)"}][: turn.turn]


def test_every_turn_of_every_conversation_has_other_words() -> None:
    content = RequestContent(model="m", prompt="", prompt_tokens=6)
    turns = list(make_turns(content, conversations=3, turns=2, seed=4))
    last = [json.loads(turn.body)["messages"][-1]["content"] for turn in turns]
    assert len(set(last)) == 6
    assert all(len(text.split()) == 6 for text in last)
    again = make_turns(content, conversations=3, turns=2, seed=4)
    assert [turn.body for turn in again] == [turn.body for turn in turns]


@pytest.mark.parametrize(("scenario", "what"), [("offline", "requests"), ("interactive", "conversations")])
def test_more_streams_than_requests_are_refused(scenario: str, what: str, wording: Wording) -> None:
    load = workload(**{"scenario": scenario, "streams": 8, "arrivals": None, "requests": None, "turns": 2, what: 7})
    with pytest.raises(InvalidInput, match=f"7 {what}") as refused:
        check_load(load)
    wording(refused.value)
    check_load(replace(load, streams=7))


def test_the_plan_of_a_schedule_contains_its_maximum_of_connections(tmp_path: Path) -> None:
    load = workload(requests=20, streams=4)
    for name, bounded, params in (
        ("free", load, {"in_flight": 4, "arrivals": "poisson"}),
        ("bounded", replace(load, max_in_flight=9), {"in_flight": 4, "arrivals": "poisson", "max_in_flight": 9}),
    ):
        check_load(bounded)
        write_load(tmp_path / name, bounded, Endpoint(url="http://h/v1"))
        (phase,) = json.loads((tmp_path / name / "plan.json").read_text())["phases"]
        assert phase["params"] == params


def test_a_schedule_that_is_too_long_for_a_clock_is_refused_before_it_is_written() -> None:
    slow = workload(requests=100_000, arrivals=Arrivals(process="constant", rate_per_s=1e-6))
    with pytest.raises(InvalidInput, match=r"1e\+11 s"):
        check_load(slow)
    far = tuple(TracedRequest(timestamp_s=at) for at in (0.0, 1e10, 2e10))
    with pytest.raises(InvalidInput, match=r"2e\+10 s"):
        check_load(workload(arrivals=None, trace=far))


def test_images_have_random_sizes_of_the_list_and_their_pixels_are_counted() -> None:
    content = RequestContent(model="m", prompt="what?", images=Images(count=2, sizes=((10, 10), (30, 20))))
    pixels: list[int] = []
    bodies = list(make_bodies(content, 40, pixels, seed=2))
    assert len(set(bodies)) == 40
    assert set(pixels) == {200, 700, 1200}
