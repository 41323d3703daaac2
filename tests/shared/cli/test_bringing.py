"""Endpoints, weights, questions and secrets of a user, given on the command line without YAML, with a running stack."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gguf import whole
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home

ENDPOINT = ("--endpoint", "http://127.0.0.1:9/v1", "--model-name", "Qwen/Qwen2.5-VL-7B-Instruct")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A stack without workers, in which submitted runs wait."""
    made = Home(tmp_path_factory.mktemp("home"))
    control.up(made, host="127.0.0.1", port=0, services=("api", "scheduler"))
    yield made
    control.kill(made)


def _run(home: Home, *arguments: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments],
        check=False,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        env={**environment, "VLMHB_HOME": str(home.root), "NO_COLOR": "1", **env},
    )


def _submitted(home: Home, *arguments: str) -> dict[str, Any]:
    done = _run(home, "run", *arguments, "--detach", "--json")
    assert done.returncode == 0, done.stderr
    envelope: dict[str, Any] = json.loads(done.stdout)
    return envelope


def _refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode in {2, 3}, done.stderr
    assert "Traceback" not in done.stderr
    code: str = json.loads(done.stdout)["data"]["code"]
    return code


def test_the_flags_of_an_endpoint_become_the_spec_of_its_run(home: Home) -> None:
    for name in ("MY_KEY", "TENANT"):
        assert _run(home, "secret", "set", name, given="sk-of-mine\n").returncode == 0
    flags = ("--task", "document-qa", "--limit", "3", "--metric", "anls", "--metric", "cer", "--extractor", "number")
    sent = ("--header", "X-Title: a bench", "--header", "X-Tenant: secret:TENANT", "--omit", "temperature")
    more = ("--max-tokens-field", "max_completion_tokens", "--max-tokens", "7", "--temperature", "0.5", "--seed", "1")
    body = ("--extra-body", '{"chat_template_kwargs": {"enable_thinking": false}}')
    envelope = _submitted(home, *ENDPOINT, "--api-key", "MY_KEY", *flags, *sent, *more, *body)
    spec = envelope["data"]["spec"]
    assert spec["target"]["model_name"] == "Qwen/Qwen2.5-VL-7B-Instruct"
    assert spec["target"]["engine_params"] == {
        "api_key_secret": "MY_KEY",
        "headers": {"X-Title": "a bench", "X-Tenant": {"secret": "TENANT"}},
        "omit": ["temperature"],
        "max_tokens_field": "max_completion_tokens",
        "extra_body": {"chat_template_kwargs": {"enable_thinking": False}},
    }
    assert (spec["dataset"]["name"], spec["dataset"]["limit"]) == ("synthetic-documents", 3)
    assert [metric["name"] for metric in spec["metrics"]] == ["anls", "cer"]
    assert [extractor["name"] for extractor in spec["extractors"]] == ["number"]
    assert (spec["decoding"]["max_tokens"], spec["decoding"]["temperature"], spec["decoding"]["seed"]) == (7, 0.5, 1)
    assert envelope["warnings"] == []
    assert "Qwen/Qwen2.5-VL-7B-Instruct" in envelope["data"]["name"]


def test_a_dataset_that_is_not_the_tasks_causes_a_warning_on_stderr_and_in_json(home: Home) -> None:
    arguments = ("--model", "simulated-instant", "--task", "document-qa", "--dataset", "digits", "--detach", "--json")
    done = _run(home, "run", *arguments)
    [warning] = json.loads(done.stdout)["warnings"]
    assert "'digits'" in warning
    assert warning in done.stderr


def test_weights_and_questions_of_a_user_are_registered_with_their_hash(home: Home, tmp_path: Path) -> None:
    weights = tmp_path / "My Model.gguf"
    weights.write_bytes(whole())
    (tmp_path / "mine.csv").write_text("question,answer,kind\n2+2?,4,sums\n")
    arguments = ("--model", str(weights), "--data", str(tmp_path / "mine.csv"), "--metric", "anls")
    run = _submitted(home, *arguments, "--group-by", "kind")["data"]
    assert run["name"] == "My-Model, mine"
    spec = run["spec"]
    [file] = spec["target"]["files"]
    assert file == {
        "role": "weights",
        "location": str(weights),
        "sha256": hashlib.sha256(whole()).hexdigest(),
    }
    assert (spec["target"]["model"], spec["task"]) == ("My-Model", "mine")
    assert (spec["dataset"]["type"], spec["dataset"]["path"]) == ("annotation_csv", str(tmp_path / "mine.csv"))
    assert _submitted(home, *arguments[:4])["data"]["spec"]["metrics"][0]["name"] == "anls"
    listed = json.loads(_run(home, "registry", "ls", "models", "--json").stdout)["data"]
    [mine] = [entry for entry in listed if entry["name"] == "My-Model"]
    assert mine["origin"] == str(home.root / "registries")


def test_registry_add_prints_the_entries_it_wrote(home: Home, tmp_path: Path) -> None:
    (tmp_path / "quiz.csv").write_text("question;answer\n2+2?;4\n")
    done = _run(home, "registry", "add", "dataset", str(tmp_path / "quiz.csv"), "--metric", "anls", "--json")
    assert [(entry["kind"], entry["name"]) for entry in json.loads(done.stdout)["data"]] == [
        ("datasets", "quiz"),
        ("tasks", "quiz"),
    ]
    (tmp_path / "w.gguf").write_bytes(whole())
    added = _run(home, "registry", "add", "model", str(tmp_path / "w.gguf"), "--name", "named")
    assert "models/named" in added.stdout
    (tmp_path / "mine_of_words.py").write_text(METRIC)
    metric = _run(home, "registry", "add", "metric", "mine_of_words:Mine", "--json", PYTHONPATH=str(tmp_path))
    assert [(entry["kind"], entry["name"]) for entry in json.loads(metric.stdout)["data"]] == [("metrics", "mine")]


METRIC = """\
from vlmhyperbench_sdk.protocols import MetricDescription


class Mine:
    def __init__(self, *, profile="v1"):
        self.description = MetricDescription(
            name="mine", profile=profile, version="1.0.0", title="Mine", kind="text", unit="1", range=(0.0, 1.0),
            direction="higher", aggregation="mean", proportion=False, normaliser="none", formula="0", source="here",
        )
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*ENDPOINT, "--task", "document-qa", "--api-key", "NOT_STORED"), "no_secret"),
        ((*ENDPOINT, "--task", "document-qa", "--api-key", "sk-pasted-by-mistake"), "usage"),
        ((*ENDPOINT, "--task", "document-qa", "--api-key", "hme14zeklZnnWDX8eiqoZkQAn4F0IF"), "no_secret"),
        ((*ENDPOINT, "--task", "document-qa", "--extra-body", "{"), "usage"),
        ((*ENDPOINT, "--task", "document-qa", "--header", "no colon"), "usage"),
        ((*ENDPOINT, "--task", "document-qa", "--header", "Authorization: Bearer sk-1"), "registry_errors"),
        ((*ENDPOINT, "--task", "document-qa", "--engine-param", "no-value"), "usage"),
        ((*ENDPOINT,), "usage"),
        (("--model", "simulated-instant", "--task", "document-qa", "--omit", "temperature"), "usage"),
        (("--model", "simulated-instant", "--task", "document-qa", "--mmproj", "x.gguf"), "usage"),
        (("--model", "none.gguf", "--task", "document-qa"), "no_file"),
        (("--model", "simulated-instant", "--data", "none.csv", "--metric", "anls"), "no_file"),
        (("--model", "simulated-instant", "--data", "x.csv", "--dataset", "digits"), "usage"),
        (("tiny-doc-vlm", "--limit", "3"), "usage"),
    ],
)
def test_flags_that_do_not_fit_together_are_refused_before_anything_is_written(
    home: Home, arguments: tuple[str, ...], code: str
) -> None:
    done = _run(home, "run", *arguments, "--detach", "--json")
    assert _refused(done) == code
    assert not re.search("sk-pasted-by-mistake|hme14zekl", done.stderr + done.stdout)


def test_files_cannot_be_registered_with_a_stack_on_another_machine(home: Home, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("question,answer\n2+2?,4\n")
    arguments = ("registry", "add", "dataset", str(tmp_path / "mine.csv"), "--json")
    assert _refused(_run(home, *arguments, VLMHB_API_URL="http://127.0.0.1:9")) == "usage"


def test_a_secret_is_stored_privately_listed_without_its_value_and_removed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    done = _run(home, "secret", "set", "TOKEN", given="sk-very-secret\n")
    file = tmp_path / "secrets" / "TOKEN"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("sk-very-secret", 0o600)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    _run(home, "secret", "set", "TOKEN", given="sk-newer")
    assert file.read_text() == "sk-newer"
    file.chmod(0o644)
    listed = _run(home, "secret", "ls", "--json")
    [row] = json.loads(listed.stdout)["data"]
    assert (row["name"], "chmod 600" in row["problem"]) == ("TOKEN", True)
    assert "sk-" not in done.stdout + done.stderr + listed.stdout
    assert _run(home, "secret", "rm", "TOKEN").returncode == 0
    assert not file.exists()
    assert _refused(_run(home, "secret", "rm", "TOKEN", "--json")) == "no_secret"


def test_the_value_of_a_secret_is_refused_as_an_argument_and_not_printed(tmp_path: Path) -> None:
    done = _run(Home(tmp_path), "secret", "set", "TOKEN", "sk-very-secret", "--json", given="sk-piped")
    assert _refused(done) == "usage"
    assert "sk-" not in done.stdout + done.stderr
    assert not (tmp_path / "secrets").exists()


@pytest.mark.parametrize(("name", "value"), [("../x", "v"), ("A", ""), ("A", "two\nlines"), ("A", "v" * 20_000)])
def test_a_wrong_name_or_value_of_a_secret_is_refused(tmp_path: Path, name: str, value: str) -> None:
    assert _refused(_run(Home(tmp_path), "secret", "set", name, "--json", given=value)) == "usage"
    assert not (tmp_path / "secrets").exists() or not list((tmp_path / "secrets").iterdir())


def test_an_invalid_entry_is_named_and_does_not_affect_others(home: Home) -> None:
    bad = home.root / "registries" / "tasks" / "bad.yaml"
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text("dataset: [\n")
    try:
        assert _submitted(home, "--model", "simulated-instant", "--task", "document-qa")["data"]["state"] == "QUEUED"
        refused = _run(home, "run", "--model", "simulated-instant", "--task", "bad", "--json")
        assert _refused(refused) == "registry_errors"
        for command in (("registry", "ls"), ("registry", "validate"), ("status",)):
            done = _run(home, *command)
            assert str(bad) in done.stderr + done.stdout, command
        doctor = json.loads(_run(home, "doctor", "--json").stdout)["data"]
        assert {check["name"]: check["is_ok"] for check in doctor}["registries"] is False
    finally:
        bad.unlink()
