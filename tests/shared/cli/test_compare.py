"""`compare` pairs runs from their files, prints what differs, and fails a build if its gate is not met."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.shared.reports.builders import evidence, fact, samples_of
from tests.support.wording import Wording
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.reports.samples import NAME
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _run(folder: Path, name: str, right: int) -> str:
    """Write the file of a run that answers `right` of ten questions, each about another page."""
    rows = [fact(i, "yes" if i < right else "no", "yes", images=[f"{i:064x}"]) for i in range(10)]
    (folder / name).mkdir()
    (folder / name / NAME).write_bytes(samples_of(evidence(rows, name=name, metrics=(ExactMatch(),))))
    return str(folder / name)


def _policy(folder: Path, text: str) -> str:
    path = folder / "policy.yaml"
    path.write_text(text)
    return str(path)


def test_two_runs_are_compared_without_a_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline, other = _run(tmp_path, "base", 9), _run(tmp_path, "other", 2)
    assert main(["compare", baseline, f"{other}/{NAME}"]) == exits.OK
    verdict, _, row, *_ = capsys.readouterr().out.splitlines()
    runs, _, text = verdict.partition(": ")
    assert (runs.split()[0], runs.split()[-1], text.split(":")[0]) == ("other", "base", "Exact match")
    assert row.split("\t")[:3] == ["Exact match", "0.900", "0.200"]


def test_the_envelope_holds_every_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [_run(tmp_path, name, right) for name, right in (("base", 9), ("a", 9), ("b", 10))]
    assert main(["compare", *runs, "--json"]) == exits.OK
    envelope = json.loads(capsys.readouterr().out)
    first, second = envelope["data"]["comparisons"]
    assert (envelope["kind"], envelope["warnings"]) == ("comparison", [])
    assert first["metrics"]["exact_match"]["difference"] == 0.0
    assert second["flips"] == {"both_right": 9, "broke": 0, "mended": 1, "both_wrong": 0}
    assert first["gate"] is None


def test_a_gate_that_is_not_met_exits_with_5_and_writes_what_builds_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline, good, bad = (_run(tmp_path, name, n) for name, n in (("base", 9), ("good", 10), ("bad", 2)))
    policy = _policy(tmp_path, "rules:\n- metric: exact_match\n  max_drop: 0.05\n- {share: missing, max: 0}\n")
    files = ["--junit", str(tmp_path / "gate.xml"), "--markdown", str(tmp_path / "gate.md")]
    assert main(["compare", baseline, good, "--gate", policy, *files]) == exits.OK
    assert main(["compare", baseline, good, bad, "--gate", policy, *files]) == exits.GATE == 5
    assert [" NOT " in line for line in capsys.readouterr().out.splitlines() if "base:" in line] == [False, False, True]
    first, second = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in (first, second)] == [
        ("good", "2", "0"),
        ("bad", "2", "1"),
    ]
    assert re.search("^## bad .*base$", (tmp_path / "gate.md").read_text(), re.MULTILINE)


def test_a_rule_is_checked_for_the_runs_that_it_names_and_a_name_that_is_none_of_them_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    baseline, good, bad = (_run(tmp_path, name, n) for name, n in (("base", 9), ("good", 9), ("bad", 2)))
    for runs, code in (("[good]", exits.OK), ("[good, bad]", exits.GATE), ("[god]", exits.USAGE)):
        policy = _policy(tmp_path, f"rules:\n- {{parity: same_text, min: 0.99, runs: {runs}}}\n")
        assert main(["compare", baseline, good, bad, "--gate", policy]) == code
    wording(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: []\n", "policy.yaml:1: rules:"),
        (
            "version: 1\nrules:\n- metric: anls\n  max_drp: 0.1\n",
            "policy.yaml:4: rules.0.max_drp:",
        ),
        ("rules:\n- metric: anls\n", "policy.yaml:2: rules.0:"),
        ("- a\n", "policy.yaml:1:"),
    ],
)
def test_the_errors_of_a_policy_name_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    run = _run(tmp_path, "base", 9)
    assert main(["compare", run, run, "--gate", _policy(tmp_path, text)]) == exits.USAGE
    assert complaint in capsys.readouterr().err


def test_a_file_that_is_not_of_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    run = _run(tmp_path, "base", 9)
    (tmp_path / "odd.parquet").write_bytes(b"odd")
    assert main(["compare", run, str(tmp_path / "odd.parquet")]) == exits.USAGE
    assert "odd.parquet" in capsys.readouterr().err
    assert main(["compare", run, str(tmp_path / "none.parquet")]) == exits.USAGE
    wording(capsys.readouterr().err)
    assert main(["compare", run, str(tmp_path)]) == exits.USAGE
    assert main(["compare", run]) == exits.USAGE


def test_junit_without_a_gate_and_a_file_that_cannot_be_written_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    run = _run(tmp_path, "base", 9)
    assert main(["compare", run, run, "--junit", "x.xml"]) == exits.USAGE
    wording(capsys.readouterr().err)
    assert main(["compare", run, run, "--markdown", str(tmp_path / "none" / "x.md")]) == exits.SETUP
    wording(capsys.readouterr().err)
    assert main(["compare", run, run, "--markdown", "/dev/full"]) == exits.USAGE
