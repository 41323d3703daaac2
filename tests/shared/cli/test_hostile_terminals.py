"""Hostile arguments and terminals cause an error with an exit code, no traceback and no control characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG = "x" * 300
ROW = '{"id": 1, "prediction": "a", "targets": "a"}\n'
API = {"VLMHB_API_URL": "http://127.0.0.1:1", "VLMHB_API_KEY": "abcdefgh_x"}


def _run(folder: Path, *arguments: str, out: str | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments]
    environment = {**os.environ, "VLMHB_HOME": str(folder / "home"), **env}
    with Path(out or folder / "out").open("wb") as stdout:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False
        )
    done.stdout = b"" if out else (folder / "out").read_bytes()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["score", "rows.jsonl", "--metric", "../x"], 2),
        (["score", "rows.jsonl", "--metric", "json:JSONDecoder"], 1),
        (["score", "/dev/zero", "--metric", "anls"], 2),
        (["run", "--model", "a", "--task", "b", "--priority", "101"], 2),
        (["run", "--model", "a", "--task", "b", "--name", ""], 2),
        (["run", "--model", "a", "--task", "b", "--name", LONG], 2),
        (["rerun", "00000000-0000-4000-8000-000000000000", "--name", ""], 2),
        (["report", LONG], 2),
        (["compare", LONG, LONG], 2),
        (["export", LONG, "--format", "jsonl"], 2),
        (["import", LONG], 2),
        (["registry", "validate", LONG], 2),
    ],
)
def test_a_wrong_argument_is_an_error_with_its_exit_code(tmp_path: Path, arguments: list[str], code: int) -> None:
    (tmp_path / "rows.jsonl").write_text(ROW)
    done = _run(tmp_path, *arguments, **API)
    assert (done.returncode, done.stderr.startswith(b"error: ")) == (code, True), done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLMHB_TIMERS", "x"),
        ("VLMHB_TIMERS__LEASE_S", "x"),
        ("VLMHB_ALLOWED_TARGET_HOSTS", "x"),
        ("VLMHB_API_PORT", "99999"),
        ("VLMHB_RUN_MODE", "x"),
        ("VLMHB_REGISTRIES", "/nonexistent"),
        ("VLMHB_REGISTRIES", "/dev/null"),
        ("VLMHB_REGISTRIES", LONG),
        ("VLMHB_HOME", LONG),
    ],
)
def test_a_malformed_setting_is_named(tmp_path: Path, name: str, value: str) -> None:
    done = _run(tmp_path, "registry", "ls", **{name: value})
    assert done.returncode == 2, done.stderr
    assert b"VLMHB_VLMHB" not in done.stderr
    known = name.removeprefix("VLMHB_").lower().partition("__")[0]
    error = done.stderr.decode().lower()
    assert known in error or value.lower() in error


@pytest.mark.parametrize(
    "env",
    [
        {"VLMHB_API_URL": "http://["},
        {"VLMHB_API_URL": "http://a:99999"},
        {"VLMHB_API_URL": "file:///etc"},
        {"VLMHB_API_KEY": "é"},
        {"VLMHB_API_KEY": "a\nb"},
        {"VLMHB_API_KEY": "", "VLMHB_API_KEY_FILE": "/dev/zero"},
    ],
)
def test_a_malformed_address_or_key_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    done = _run(tmp_path, "ls", **{**API, **env})
    assert done.returncode == 2, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["score", "--help"], ["score", "rows.jsonl", "--metric", "anls"]])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_an_error_and_no_traceback(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "rows.jsonl").write_text(ROW)
    done = _run(tmp_path, *arguments, out="/dev/full")
    assert done.returncode == 3
    assert b"No space left" in done.stderr
    assert Path("/dev/full").is_char_device()


def test_an_ascii_terminal_shows_every_text_and_json_stays_json(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "é\u2013", "prediction": "é", "targets": "é"}))
    missing = _run(tmp_path, "score", "\u2013.jsonl", "--metric", "anls", PYTHONIOENCODING="ascii")
    assert (missing.returncode, b"\\u2013.jsonl" in missing.stderr) == (2, True)
    done = _run(tmp_path, "score", "rows.jsonl", "--metric", "anls", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["data"]["scores"][0]["id"] == "é\u2013"


def test_control_characters_of_a_name_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "a\x1b[31m\r\x9b\u202e.jsonl"
    done = _run(tmp_path, "score", name, "--metric", "anls")
    error = done.stderr.decode()
    assert not set(error) & set("\x1b\r\x9b\u202e")
    assert "a\\x1b[31m\\x0d\\x9b\\u202e.jsonl" in error
    as_json = _run(tmp_path, "score", name, "--metric", "anls", "--json")
    assert json.loads(as_json.stdout)["data"]["message"].startswith(name)


def test_a_lone_surrogate_in_a_name_is_escaped_and_json_stays_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff.jsonl")
    done = _run(tmp_path, "score", name, "--metric", "anls", "--json")
    assert (done.returncode, json.loads(done.stdout)["data"]["code"]) == (2, "not_found")
    assert b"a\\udcff.jsonl" in done.stderr
