"""The child that writes the bodies of load plans: what it writes, what it refuses, and that it cleans up."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vlmhyperbench_gateway.bodies import RequestRefused, _answer, write_bodies
from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


class _Helped(LlamaCpp):
    """An adapter that needs the gateway on the way."""

    measured_at = "gateway"


def _request(text: str, url: str | None = None, **more: JsonValue) -> JsonObject:
    content: list[JsonValue] = [{"type": "text", "text": text}]
    if url is not None:
        image: JsonValue = {"type": "image_url", "image_url": {"url": url, "media_type": "image/png"}}
        content.insert(0, image)
    return {"model": "m", "messages": [{"role": "user", "content": content}], **more}


def _lines(folder: Path, *requests: JsonObject) -> Path:
    path = folder / "requests.jsonl"
    lines = [json.dumps({"ordinal": 7 + number, "request": request}) for number, request in enumerate(requests)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_full_disk_has_its_own_code(tmp_path: Path) -> None:
    order = {
        "backend_class": "llamacpp",
        "requests": str(_lines(tmp_path, _request("x" * 100_000))),
        "out": "/dev/full",
        "images": {},
    }
    answer = _answer(json.dumps(order), ["vlmhyperbench-llamacpp"])
    assert (answer["event"], answer["code"]) == ("error", "storage_full")


DOORS = """
from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.errors import NotFound


class Unconstructable(LlamaCpp):
    def __init__(self):
        raise {error}


class Untranslatable(LlamaCpp):
    def to_engine(self, request):
        raise {error}
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [('NotFound("no table", code="table_missing")', "table_missing"), ('OSError("no table")', "plugin_failure")],
    ids=["raised-on-purpose", "unexpected"],
)
@pytest.mark.parametrize("adapter", ["Unconstructable", "Untranslatable"])
def test_an_error_that_an_adapter_raises_on_purpose_keeps_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: str, error: str, code: str
) -> None:
    (tmp_path / "doors.py").write_text(DOORS.format(error=error))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "doors", raising=False)
    order = {
        "backend_class": f"doors:{adapter}",
        "requests": str(_lines(tmp_path, _request("x"))),
        "out": str(tmp_path / "bodies.bin"),
        "images": {},
    }
    assert _answer(json.dumps(order), ["doors"])["code"] == code


def test_every_body_is_at_the_offset_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(PNG)
    out = tmp_path / "bodies.bin"
    out.write_bytes(b"before")
    requests = _lines(tmp_path, _request("Привет"), _request("b", "sha256:abc", stream=True))
    assert write_bodies(LlamaCpp(), requests, out, {"abc": str(tmp_path / "image")}) == 2
    table = np.load(tmp_path / "bodies.bin.npy")
    assert table["ordinal"].tolist() == [7, 8]
    data = out.read_bytes()
    assert data.startswith(b"before")
    bodies = []
    for row in table:
        body = data[row["offset"] : row["offset"] + row["bytes"]]
        assert hashlib.sha256(body).hexdigest().encode() == row["sha256"]
        bodies.append(json.loads(body))
    assert bodies[0]["messages"][0]["content"][0]["text"] == "Привет"
    assert bodies[0]["cache_prompt"] is False
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert bodies[1]["messages"][0]["content"][0] == {"type": "image_url", "image_url": {"url": url}}


def test_a_request_that_cannot_be_translated_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "bodies.bin"
    out.write_bytes(b"before")
    requests = _lines(tmp_path, _request("a"), _request("b", min_tokens=3))
    with pytest.raises(RequestRefused, match="min_tokens") as caught:
        write_bodies(LlamaCpp(), requests, out, {})
    assert (caught.value.ordinal, caught.value.code) == (8, "unsupported")
    assert out.read_bytes() == b"before"
    assert not (tmp_path / "bodies.bin.npy").exists()


@pytest.mark.parametrize("kind", ["absent", "text"])
def test_an_image_that_is_missing_or_invalid_is_refused_with_the_ordinal(tmp_path: Path, kind: str) -> None:
    (tmp_path / "text").write_bytes(b"hello")
    requests = _lines(tmp_path, _request("a", "sha256:abc"))
    with pytest.raises(RequestRefused) as caught:
        write_bodies(LlamaCpp(), requests, tmp_path / "out", {"abc": str(tmp_path / kind)})
    assert caught.value.code == {"absent": "image_missing", "text": "invalid_image"}[kind]


def test_requests_that_are_measured_at_the_gateway_are_written_unchanged(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_bodies(_Helped(), _lines(tmp_path, _request("a", top_k=3)), out, {})
    assert json.loads(out.read_bytes()) == _request("a", top_k=3)


def test_the_child_answers_one_line_per_line(tmp_path: Path) -> None:
    good = {"backend_class": "llamacpp", "requests": str(_lines(tmp_path, _request("a"))), "out": str(tmp_path / "o")}
    orders = [
        {**good, "images": {}},
        {**good, "images": {}, "backend_class": "lamacpp"},
        {**good, "images": {}, "requests": str(tmp_path / "none")},
        {**good, "images": {}, "backend_class": "os:system"},
        {},
    ]
    lines = "".join(f"{json.dumps(order)}\n" for order in orders) + "{\n"
    argv = [sys.executable, "-m", "vlmhyperbench_gateway.bodies"]
    ended = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert answers[0] == {"event": "done", "rows": 1}
    assert [(answer["event"], answer["code"]) for answer in answers[1:]] == [
        ("error", "not_found"),
        ("error", "unavailable"),
        ("error", "adapter_not_allowed"),
        ("error", "invalid_input"),
        ("error", "invalid_input"),
    ]
    assert "llamacpp" in answers[1]["message"]
