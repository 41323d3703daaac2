"""What is sent: synthetic images, traces, and their errors."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from vlmhyperbench.load.images import noise_png, parse_size
from vlmhyperbench.load.trace import TracedRequest, read_trace
from vlmhyperbench_sdk.errors import InvalidInput, NotFound


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
