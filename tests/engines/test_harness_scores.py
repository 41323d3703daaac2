"""Answers get the scores that the code of evaluation harnesses gives them, wherever the rules are the same."""

from __future__ import annotations

import pytest

from benchmarks.harness_scores import CASES, TOLERANCE, score_here, score_there
from benchmarks.loadgen_conformance.clients import PEERS
from tests.support.benchmarks import fixture
from tests.support.needs import skip_or_fail

PYTHON = PEERS / "harness/bin/python"


def test_the_code_of_harnesses_gives_the_same_scores() -> None:
    if not PYTHON.is_file():
        skip_or_fail("the harnesses are not installed: the output of `make clients` states the reason")
    here = {name: score_here(fixture(task), metric, profile) for name, (task, metric, profile, _) in CASES.items()}
    assert score_there(PYTHON, list(CASES)) == pytest.approx(here, abs=TOLERANCE)
