"""What is sent: synthetic images, traces, and their errors."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.shared.load.queueing import workload
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.bodies import Asked, Images, make_bodies, make_turns
from vlmhyperbench.load.images import noise_png, parse_size, parse_sizes
from vlmhyperbench.load.trace import TracedRequest, read_trace
from vlmhyperbench.load.workload import check_load, write_load
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.load import Endpoint


@pytest.mark.parametrize("size", [(1, 1), (200, 7), (64, 64), (1024, 768)])
def test_an_image_is_one_of_its_size(size: tuple[int, int]) -> None:
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
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="no size"):
        parse_size(text)


def test_a_size_beyond_reason_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be made"):
        noise_png(100_000, 1, seed=0)


def test_a_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp_s": 1, "prompt_tokens": 5, "output_tokens": 2}\n\n{"timestamp_s": 2.5, "user": 1}\n')
    assert read_trace(path) == [
        TracedRequest(timestamp_s=1.0, prompt_tokens=5, output_tokens=2),
        TracedRequest(timestamp_s=2.5),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no request"),
        ("hello", "trace.jsonl:1 is not JSON"),
        ('{"timestamp_s": 1}\n[]', "trace.jsonl:2 is not an object"),
        ("{}", "no timestamp_s"),
        ('{"timestamp_s": true}', "no timestamp_s"),
        ('{"timestamp_s": 1}\n{"timestamp_s": 1%s}' % ("0" * 400), "trace.jsonl:2 has a timestamp_s beyond 1e\\+15"),
        ('{"timestamp_s": -1e16}', "trace.jsonl:1 has a timestamp_s beyond"),
        ('{"timestamp_s": 1e400}', "trace.jsonl:1 has a timestamp_s beyond"),
        ('{"timestamp_s": NaN}', "trace.jsonl:1 has a timestamp_s beyond"),
        ('{"timestamp_s": 1%s}' % ("0" * 5000), "trace.jsonl:1 is not JSON"),
        ("[" * 100_000, "trace.jsonl:1 is not JSON"),
        ('{"timestamp_s": 1, "prompt_tokens": 0}', "prompt_tokens 0"),
        ('{"timestamp_s": 1, "output_tokens": "5"}', "output_tokens '5'"),
    ],
)
def test_a_broken_trace_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trace.jsonl").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        read_trace(tmp_path / "trace.jsonl")


def test_a_trace_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nothing\.jsonl cannot be read"):
        read_trace(tmp_path / "nothing.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_trace(tmp_path / "bytes")


def test_sizes_are_read() -> None:
    assert parse_sizes("512x512, 1024x768") == ((512, 512), (1024, 768))
    with pytest.raises(InvalidInput, match="'' is no size"):
        parse_sizes("512x512,")


def test_a_turn_holds_an_empty_place_for_each_answer_before_it() -> None:
    asked = Asked(model='m "x"', prompt='ein "Häuschen"\n', media=("data:image/png;base64,AA==",))
    turns = list(make_turns(asked, conversations=2, turns=3, seed=1))
    assert [(one.conversation, one.turn, len(one.places)) for one in turns] == [
        (0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 1), (1, 2, 2),
    ]  # fmt: skip
    for one in turns:
        messages = json.loads(one.body)["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"] * one.turn + ["user"]
        assert [message["content"] for message in messages[1::2]] == [""] * one.turn
        assert all(one.body[place - 1 : place + 1] == b'""' for place in one.places)
        assert list(one.places) == sorted(set(one.places))
        # The picture goes with the first turn, and what was said is said again.
        assert [part["type"] for part in messages[0]["content"]] == ["image_url", "text"]
        assert messages[2:4:2] == [{"role": "user", "content": f"{asked.prompt} (2)"}][: one.turn]


def test_conversations_ask_other_words_in_every_turn() -> None:
    asked = Asked(model="m", prompt="", prompt_tokens=6)
    turns = list(make_turns(asked, conversations=3, turns=2, seed=4))
    last = [json.loads(one.body)["messages"][-1]["content"] for one in turns]
    assert len(set(last)) == 6
    assert all(len(text.split()) == 6 for text in last)
    assert [one.body for one in make_turns(asked, conversations=3, turns=2, seed=4)] == [one.body for one in turns]


@pytest.mark.parametrize(("scenario", "what"), [("offline", "requests"), ("interactive", "conversations")])
def test_more_streams_than_requests_are_refused(scenario: str, what: str) -> None:
    load = workload(**{"scenario": scenario, "streams": 8, "arrivals": None, "requests": None, "turns": 2, what: 7})
    with pytest.raises(InvalidInput, match=f"7 {what} cannot keep 8 streams busy"):
        check_load(load)
    check_load(replace(load, streams=7))


def test_connections_of_a_schedule_are_bounded_in_its_plan(tmp_path: Path) -> None:
    load = workload(requests=20, streams=4)
    for name, bounded, params in (
        ("free", load, {"in_flight": 4, "arrivals": "poisson"}),
        ("bounded", replace(load, max_in_flight=9), {"in_flight": 4, "arrivals": "poisson", "max_in_flight": 9}),
    ):
        check_load(bounded)
        write_load(tmp_path / name, bounded, Endpoint(url="http://h/v1"))
        (phase,) = json.loads((tmp_path / name / "plan.json").read_text())["phases"]
        assert phase["params"] == params


def test_a_schedule_beyond_any_clock_is_refused_before_it_is_written() -> None:
    slow = workload(requests=100_000, arrivals=Arrivals(process="constant", rate_per_s=1e-6))
    with pytest.raises(InvalidInput, match=r"would take 1e\+11 s"):
        check_load(slow)
    far = tuple(TracedRequest(timestamp_s=at) for at in (0.0, 1e10, 2e10))
    with pytest.raises(InvalidInput, match=r"trace would last 2e\+10 s"):
        check_load(workload(arrivals=None, trace=far))


def test_images_have_any_of_their_sizes_and_their_pixels_are_told() -> None:
    asked = Asked(model="m", prompt="what?", images=Images(count=2, sizes=((10, 10), (30, 20))))
    pixels: list[int] = []
    bodies = list(make_bodies(asked, 40, pixels, seed=2))
    assert len(set(bodies)) == 40
    assert set(pixels) == {200, 700, 1200}
