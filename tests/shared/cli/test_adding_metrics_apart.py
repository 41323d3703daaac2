"""A metric is registered with the packages of its own environment by one command, from a folder of its user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.wheels import make_wheel

CODE = """
import counting
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import Measures


class Letters:
    def __init__(self, *, profile="v2"):
        self.description = MetricDescription(
            name="letters", profile=profile, version="1.2.0", title="Letters", kind="text", unit="1", range=(0.0, 1.0),
            direction="higher", aggregation="mean", proportion=False, normaliser="none", formula="share", source="here",
        )

    def measure(self, predictions, references, *, metadata=None):
        values = [counting.share(text, accepted[0]) for text, accepted in zip(predictions, references)]
        return Measures(
            values=values, reasons=[None] * len(values), statistics={"sum": values, "n": [1.0] * len(values)}
        )

    def combine(self, sums):
        return sums["sum"] / sums["n"] if sums.get("n") else None
"""
COUNTING = "def share(text, wanted):\n    return sum(letter in text for letter in wanted) / len(wanted)\n"
REQUIREMENTS = ["letter_bench==1.0.0", "counting==2.0.0"]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, with wheels in place of an index."""
    folder = tmp_path_factory.mktemp("scratch")
    (folder / "wheels").mkdir()
    needs = ["vlmhyperbench-sdk>=0.1,<0.2", "counting"]
    points = "[vlmhyperbench.metrics]\nletters = letter_bench:Letters\n"
    make_wheel(folder / "wheels", "letter_bench", "1.0.0", needs=needs, code=CODE, entry_points=points)
    for version in ("2.0.0", "3.0.0"):
        make_wheel(folder / "wheels", "counting", version, code=COUNTING)
    return folder


def _run(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    links = f"{environment.get('PIP_FIND_LINKS', '')} {scratch / 'wheels'}"
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments, "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=scratch,
        env={**environment, "VLMHB_HOME": str(scratch / "home"), "PIP_FIND_LINKS": links, "NO_COLOR": "1"},
    )


def _add(scratch: Path, class_path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(scratch, "registry", "add", "metric", class_path, *arguments)


def _flags(requirements: list[str]) -> list[str]:
    return [word for line in requirements for word in ("--requirement", line)]


@pytest.mark.parametrize(("class_path", "name"), [("letters", "letters"), ("letter_bench:Letters", "by-path")])
def test_it_is_registered_with_its_requirements_and_scores_in_its_environment(
    scratch: Path, class_path: str, name: str
) -> None:
    added = _add(scratch, class_path, "--name", name, *_flags(REQUIREMENTS))
    assert added.returncode == 0, added.stderr
    [entry] = json.loads(added.stdout)["data"]
    assert (entry["kind"], entry["name"], entry["is_new"]) == ("metrics", name, True)
    assert yaml.safe_load(Path(entry["file"]).read_text()) == {
        "class_path": class_path,
        "profile": "v2",
        "version": "1.2.0",
        "environment": {"virtualenv": {"requirements": REQUIREMENTS}},
    }
    answers = scratch / "answers.jsonl"
    lines = ({"id": text, "prediction": text, "targets": ["abcd"]} for text in ("ab", "abcd"))
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    scored = _run(scratch, "score", str(answers), "--metric", name)
    assert scored.returncode == 0, scored.stderr
    data: dict[str, Any] = json.loads(scored.stdout)["data"]
    assert data["aggregate"]["value"] == 0.75
    again = _add(scratch, class_path, "--name", name, *_flags(REQUIREMENTS))
    assert json.loads(again.stdout)["data"][0]["is_new"] is False


@pytest.mark.parametrize(
    ("class_path", "arguments", "code"),
    [
        ("letters", ("--requirement", "letter_bench=1"), "registry_errors"),
        ("letters", ("--package", "not-registered"), "registry_errors"),
        ("letters", ("--requirement", "counting==2.0.0"), "not_found"),
        ("letter_bench:Missing", ("--requirement", "letter_bench==1.0.0"), "not_found"),
        ("letters", ("--requirement", "letter_bench==9.0"), "environment_unresolvable"),
    ],
)
def test_what_cannot_be_used_is_refused_and_not_written(
    scratch: Path, class_path: str, arguments: tuple[str, ...], code: str
) -> None:
    refused = _add(scratch, class_path, "--name", "refused", *arguments)
    assert refused.returncode in {2, 3}, refused.stderr
    assert "Traceback" not in refused.stderr
    assert json.loads(refused.stdout)["data"]["code"] == code
    assert not (scratch / "home" / "registries" / "metrics" / "refused.yaml").exists()
