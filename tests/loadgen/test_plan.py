"""Wrong plans are refused before anything is sent, and both definitions of the columns are equal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loadgen.driving import chat_body, write
from tests.support.wording import Wording
from vlmhyperbench.load.plan import write_bodies
from vlmhyperbench_loadgen.answers import read_refusal, read_whole
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.plan import read_plan
from vlmhyperbench_loadgen.rows import COLUMNS
from vlmhyperbench_loadgen.table import DTYPE, Request, open_bodies, read_requests
from vlmhyperbench_loadgen.target import open_target, parse_url
from vlmhyperbench_sdk.load import RECORD_COLUMNS, REQUEST_DTYPE, LoadLimits

URL = "http://127.0.0.1:1/v1/chat/completions"


def test_the_columns_are_those_of_the_contract() -> None:
    assert list(DTYPE) == REQUEST_DTYPE
    assert Request._fields == tuple(name for name, _ in REQUEST_DTYPE)
    assert tuple(RECORD_COLUMNS) == COLUMNS


def test_a_table_of_numpy_is_read_back(tmp_path: Path) -> None:
    table = write_bodies(tmp_path, [b"a", b"bcd"], phase=4)
    np.save(tmp_path / "requests.npy", table)
    assert read_requests(tmp_path / "requests.npy") == [Request._make(row) for row in table.tolist()]
    assert bytes(open_bodies(tmp_path / "bodies.bin")[1:4]) == b"bcd"


def test_a_plan_is_read(tmp_path: Path) -> None:
    write(tmp_path, URL, bodies=[chat_body()] * 3, in_flight=2, limits=LoadLimits(tries=5))
    checked = read_plan(tmp_path)
    (phase,) = checked.plan.phases
    assert checked.requests == {1: 3}
    assert (checked.streams_of(phase), checked.tries_of(phase)) == (2, 5)
    assert checked.schedule_sha256 == read_plan(tmp_path).schedule_sha256


def test_only_resumable_phases_have_more_than_one_try(tmp_path: Path) -> None:
    write(tmp_path, URL, bodies=[chat_body()], kind="single_stream", in_flight=8, limits=LoadLimits(tries=5))
    checked = read_plan(tmp_path)
    assert checked.tries_of(checked.plan.phases[0]) == 1
    assert checked.streams_of(checked.plan.phases[0]) == 1


Change = Callable[[dict[str, Any]], object]

CHANGES: dict[str, Change] = {
    "unknown version": lambda plan: plan.update(version=2),
    "unknown field": lambda plan: plan.update(speed=1),
    "missing field": lambda plan: plan.pop("seed"),
    "seed is text": lambda plan: plan.update(seed="x"),
    "no process": lambda plan: plan.update(processes=0),
    "no phase": lambda plan: plan.update(phases=[]),
    "phases are no list": lambda plan: plan.update(phases={}),
    "two phases of one number": lambda plan: plan.update(phases=plan["phases"] * 2),
    "phase is no object": lambda plan: plan.update(phases=[3]),
    "closed loop of kind server": lambda plan: plan["phases"][0].update(kind="server"),
    "negative number of a phase": lambda plan: plan["phases"][0].update(no=-1),
    "count is too large": lambda plan: plan["phases"][0].update(count=2),
    "no count": lambda plan: plan["phases"][0].update(count=None),
    "no request in flight": lambda plan: plan["phases"][0].update(params={"in_flight": 0}),
    "in flight is no number": lambda plan: plan["phases"][0].update(params={"in_flight": True}),
    "search": lambda plan: plan["phases"][0].update(params={"search": {}}),
    "phase without rows": lambda plan: plan["phases"][0].update(no=2),
    "wrong total": lambda plan: plan.update(counts={"requests": 7}),
    "no time-out": lambda plan: plan["limits"].update(request_timeout_s=0),
    "no tries": lambda plan: plan["limits"].update(tries=0),
    "url is no text": lambda plan: plan["endpoint"].update(url=3),
    "url of another scheme": lambda plan: plan["endpoint"].update(url="ftp://x"),
    "header is no text": lambda plan: plan["endpoint"].update(headers={"A": 1}),
    "unix socket is no text": lambda plan: plan["endpoint"].update(unix_socket=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_wrong_plan_is_refused(tmp_path: Path, change: Change, wording: Wording) -> None:
    write(tmp_path, URL, bodies=[chat_body()])
    plan = json.loads((tmp_path / "plan.json").read_text())
    change(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(PlanError) as refused:
        read_plan(tmp_path)
    wording(refused.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("phase", 9),
        ("body_bytes", 10_000),
        ("body_offset", -1),
        ("turn", 1),
        ("think_ns", -1),
        ("stream", -2),
        ("stream", 1),
        ("ordinal", 1),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, column: str, value: int, wording: Wording) -> None:
    write(tmp_path, URL, bodies=[chat_body(), chat_body()])
    table = np.load(tmp_path / "requests.npy")
    table[column][0] = value
    np.save(tmp_path / "requests.npy", table)
    with pytest.raises(PlanError) as refused:
        read_plan(tmp_path)
    wording(refused.value)


def test_a_row_of_an_unknown_phase_is_refused(tmp_path: Path) -> None:
    write(tmp_path, URL, bodies=[chat_body(), chat_body()])
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["phases"][0]["count"] = 1
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    table = np.load(tmp_path / "requests.npy")
    table["phase"][0] = 9
    np.save(tmp_path / "requests.npy", table)
    with pytest.raises(PlanError, match="phase 9"):
        read_plan(tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x93NUMPY\x01\x00\x05\x00{'a':", b"PK\x03\x04 and so on", b"\x93NUMPY\x01\x00\x02\x00[]"],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "requests.npy").write_bytes(data)
    with pytest.raises(PlanError):
        read_requests(tmp_path / "requests.npy")


def test_a_table_with_other_columns_or_missing_bytes_is_refused(tmp_path: Path, wording: Wording) -> None:
    path = tmp_path / "requests.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(PlanError) as refused:
        read_requests(path)
    wording(refused.value)
    np.save(path, write_bodies(tmp_path, [b"a", b"b"], phase=1))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PlanError) as refused:
        read_requests(path)
    wording(refused.value)


@pytest.mark.parametrize("name", ["plan.json", "requests.npy", "bodies.bin"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, URL, bodies=[chat_body()])
    (tmp_path / name).unlink()
    with pytest.raises(PlanError, match=f"^{name}"):
        read_plan(tmp_path)


def test_a_plan_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(PlanError, match="not JSON"):
        read_plan(tmp_path)


@pytest.mark.parametrize(
    ("url", "authority", "path", "port"),
    [
        ("http://h/v1?a=b", "h", "/v1?a=b", 80),
        ("https://H:8443", "h:8443", "/", 8443),
        ("http://[::1]:9/x#y", "[::1]:9", "/x", 9),
    ],
)
def test_a_url_is_split(url: str, authority: str, path: str, port: int) -> None:
    parsed = parse_url(url)
    assert (parsed.authority, parsed.path, parsed.port) == (authority, path, port)


@pytest.mark.parametrize(
    "url", ["h/v1", "http://", "http://h:port/", "http://u:p@h/", "http://h/a b", "http://h/\r\nX: y", "http://h/ü"]
)
def test_a_url_that_no_request_can_hold_is_refused(url: str) -> None:
    with pytest.raises(PlanError):
        parse_url(url)


@pytest.mark.parametrize(("name", "value"), [("A B", "x"), ("A", "x\r\nB: y"), ("A", "ü"), ("", "x")])
def test_a_header_that_http_cannot_carry_is_refused(name: str, value: str) -> None:
    with pytest.raises(PlanError, match=f"header '{name}'"):
        open_target(URL, headers={name: value}, unix_socket=None, verify=True)


def test_secrets_are_masked_with_and_without_their_scheme() -> None:
    target = open_target(URL, headers={"Authorization": "Bearer abcdef"}, unix_socket=None, verify=True)
    assert [target.mask(text) for text in ("Bearer abcdef", "abcdef")] == ["********", "********"]
    assert "abcdef" not in repr(target).replace(repr(target.head), "")


@pytest.mark.parametrize("before", range(480, 505))
@pytest.mark.parametrize("spaces", [0, 400])
def test_no_beginning_of_a_secret_is_left_where_an_error_is_cut(before: int, spaces: int) -> None:
    secret = "sk-a-long-secret-of-somebody"
    target = open_target(URL, headers={"Authorization": f"Bearer {secret}"}, unix_socket=None, verify=True)
    text = "x" * (before - spaces) + " " * spaces + secret + "y" * 1000
    for payload in (json.dumps({"error": {"message": text}}), text):
        assert "sk-" not in target.mask(read_refusal(400, payload.encode()))
        assert "sk-" not in target.mask(read_whole(payload.encode(), 1).error or "")


def test_a_long_secret_is_left_in_no_word_of_an_error() -> None:
    secret = "sk-" + "long" * 50
    target = open_target(URL, headers={"Authorization": f"Bearer {secret}"}, unix_socket=None, verify=True)
    payload = json.dumps({"error": {"message": "no", "code": f"key.{secret}"}}).encode()
    assert target.mask(read_refusal(401, payload)) == "http_401: no [code=key.…]"
