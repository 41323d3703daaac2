"""The command line as a user runs it: a process with an exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.help_pages import COMMANDS, GOLDEN, help_of, pages
from tests.support.wording import Wording
from vlmhyperbench.cli.main import _COMMANDS

REGISTRIES = Path(__file__).parents[3] / "registries"


def _run(*arguments: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**environment, "VLMHB_HOME": str(home), "VLMHB_REGISTRIES": str(REGISTRIES), "NO_COLOR": "1", **env},
    )


def _envelope(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    envelope = json.loads(done.stdout)
    assert list(envelope) == ["schema", "kind", "data", "next", "warnings"]
    assert envelope["schema"] == "vlmhb/v1"
    return envelope


def test_help_names_every_command_and_imports_nothing_heavy(tmp_path: Path) -> None:
    done = _run("--help", home=tmp_path)
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in _COMMANDS)
    heavy = {"cyclopts", "rich", "pydantic", "numpy", "httpx2", "sqlalchemy"}
    code = "import sys; from vlmhyperbench.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not {name for name in heavy if f"'{name}'" in loaded}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_its_options_in_groups(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = help_of(command)
    assert page.startswith("Usage: vlmhyperbench")
    # An option without a group would be listed under "Parameters"; every command has --json and --quiet.
    assert "╭─ Parameters ─" not in page
    assert ("╭─ Output ─" in page) is ("--json   " in page)


def test_the_wording_of_the_help_is_that_of_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    written = GOLDEN.read_text(encoding="utf-8")
    assert pages() + "\n" == written, "Run: python -m tests.shared.cli.help_pages"


def test_for_a_mistyped_command_the_most_similar_is_suggested(tmp_path: Path, wording: Wording) -> None:
    done = _run("dmeo", home=tmp_path)
    assert done.returncode == 2
    wording(done.stderr)


def test_for_a_mistyped_flag_the_most_similar_is_suggested(tmp_path: Path) -> None:
    done = _run("status", "--jsn", home=tmp_path)
    assert done.returncode == 2
    assert "--json" in done.stderr
    assert done.stdout == ""


def test_without_a_stack_the_status_is_down(tmp_path: Path) -> None:
    done = _run("status", "--json", home=tmp_path)
    assert done.returncode == 3
    assert _envelope(done)["data"]["is_up"] is False


@pytest.mark.parametrize("command", [("ls",), ("show", "x"), ("cancel", "x"), ("run", "demo"), ("report", "x")])
def test_without_a_stack_the_cure_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    done = _run(*command, "--json", home=tmp_path)
    assert done.returncode == 3
    assert "vlmhyperbench up" in done.stderr
    envelope = _envelope(done)
    assert (envelope["kind"], envelope["data"]["code"]) == ("error", "no_stack")


def test_an_api_that_does_not_answer_is_named_by_its_url(tmp_path: Path) -> None:
    done = _run("ls", "--json", home=tmp_path, VLMHB_API_URL="http://127.0.0.1:9", VLMHB_API_KEY="k")
    assert done.returncode == 3
    assert _envelope(done)["data"]["code"] == "unavailable"
    assert "http://127.0.0.1:9" in done.stderr
    assert "VLMHB_API_URL" in done.stderr


def test_an_unknown_state_is_refused_with_the_known_ones(tmp_path: Path, wording: Wording) -> None:
    done = _run("ls", "experiments", "--state", "bogus", home=tmp_path)
    assert done.returncode == 2
    wording(done.stderr)


def test_registry_entries_are_listed_shown_and_valid(tmp_path: Path) -> None:
    listed = _envelope(_run("registry", "ls", "experiments", "--json", home=tmp_path))
    assert "demo" in [entry["name"] for entry in listed["data"]]
    entry = _envelope(_run("registry", "show", "experiments", "demo", "--json", home=tmp_path))
    assert entry["data"]["file"] == "experiments/demo.yaml"
    assert _run("registry", "validate", home=tmp_path).returncode == 0


def test_for_an_unknown_entry_the_most_similar_is_suggested(tmp_path: Path) -> None:
    done = _run("registry", "show", "models", "tiny-doc-vl", home=tmp_path)
    assert done.returncode == 2
    assert "tiny-doc-vlm" in done.stderr


def test_the_errors_of_a_malformed_entry_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "registries" / "models").mkdir(parents=True)
    (tmp_path / "registries" / "models" / "bad.yaml").write_text("backends: [llamacpp]\nbackend_clas: x\n")
    done = _run("registry", "validate", str(tmp_path / "registries"), home=tmp_path)
    assert done.returncode == 2
    assert "models/bad.yaml:2" in done.stderr
    assert "backend_class" in done.stderr


def test_a_run_file_is_checked_before_anything_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("target: {model: simulated}\ntsk: document-qa\n")
    done = _run("run", str(file), home=tmp_path)
    assert done.returncode == 2
    assert f"{file}:2" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("--model", "x"), ("--endpoint", "http://h", "--task", "t"), ("demo", "--model", "x")],
    ids=["nothing", "no task", "no model name", "name and flags"],
)
def test_run_names_the_arguments_that_are_missing_or_too_many(
    arguments: tuple[str, ...], tmp_path: Path, wording: Wording
) -> None:
    done = _run("run", *arguments, home=tmp_path)
    assert done.returncode == 2
    wording(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--model", "tiny-doc-vlm", "--task", "bad name!"), "task: "),
        (("--model", "a b", "--task", "x"), "target.model: "),
        (("--endpoint", "http://x", "--model-name", "", "--task", "x"), "target.model_name: "),
        (("--model", "m", "--task", "x", "--dataset", "d", "--limit", "-5"), "limit: "),
        (("simulated", "--limit", "0"), "simulated"),
    ],
)
def test_a_wrong_flag_is_named_without_a_traceback(arguments: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    done = _run("run", *arguments, home=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_names_every_check_and_its_cure(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = _run("doctor", "--json", home=tmp_path, VLMHB_API_PORT=str(taken.getsockname()[1]))
    assert done.returncode == 3
    checks = {check["name"]: check for check in _envelope(done)["data"]}
    assert {"python", "PostgreSQL", "Valkey", "services", "home", "port", "registries", "model files"} <= set(checks)
    assert not checks["port"]["is_ok"]
    assert "VLMHB_API_PORT" in checks["port"]["cure"]
    assert checks["python"]["is_ok"]


def test_doctor_names_the_packages_that_need_git_where_there_is_none(tmp_path: Path) -> None:
    entry = tmp_path / "registries" / "packages" / "theirs.yaml"
    entry.parent.mkdir(parents=True)
    entry.write_text(f"source: {{type: git, url: 'https://example.com/a.git', ref: main, commit: {'a' * 40}}}\n")
    done = _run("doctor", "--json", home=tmp_path, PATH="/nonexistent", VLMHB_API_PORT="0")
    [check] = [check for check in _envelope(done)["data"] if check["name"] == "git"]
    assert (check["is_ok"], "packages/theirs" in check["detail"], "Install git" in check["cure"]) == (False, True, True)


def test_a_port_in_use_is_named_with_its_cure_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = _run("up", home=tmp_path, VLMHB_API_PORT=port)
    assert done.returncode == 3
    assert f"Port {port}" in done.stderr
    assert "VLMHB_API_PORT" in done.stderr
    assert _run("status", home=tmp_path).returncode == 3


def test_a_port_or_address_that_up_cannot_listen_at_is_named_with_the_option(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        redis_port = taken.getsockname()[1]
        for listen, port in ((f"127.0.0.1:{redis_port - 2}", redis_port), ("192.0.2.1", 8770)):
            done = _run("up", "--listen", listen, "--json", home=tmp_path, VLMHB_API_PORT="0")
            problem = _envelope(done)["data"]
            assert (done.returncode, problem["code"]) == (3, "port_in_use")
            assert f"Port {port} " in problem["message"]
            assert "--listen" in problem["cure"]
    assert _run("status", home=tmp_path).returncode == 3


def test_a_home_that_cannot_be_written_is_named_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = _run("up", "--json", home=tmp_path / "file")
    assert done.returncode == 3
    assert str(tmp_path / "file") in done.stderr
    assert _envelope(done)["data"]["code"] == "home_unwritable"


def test_bad_settings_are_named(tmp_path: Path) -> None:
    done = _run("status", home=tmp_path, VLMHB_API_PORT="many")
    assert done.returncode == 2
    assert "VLMHB_API_PORT" in done.stderr


def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m vlmhyperbench.cli.main registry ls | head -0"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr


def test_ctrl_c_exits_with_130_and_sigterm_with_143() -> None:
    code = (
        "import os, signal, sys\n"
        "from vlmhyperbench.cli import main as cli\n"
        "cli._dispatch = lambda given: os.kill(os.getpid(), getattr(signal, given[0]))\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    for name, status in ((signal.SIGINT.name, 130), (signal.SIGTERM.name, 143)):
        assert subprocess.run([sys.executable, "-c", code, name], check=False).returncode == status
