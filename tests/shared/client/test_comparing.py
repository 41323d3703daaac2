"""A comparison in Python has the numbers of the command line, and asserts what a gate checks."""

from __future__ import annotations

import re

import pytest

from tests.shared.reports.builders import evidence, fact, samples_of
from vlmhyperbench.client import calls
from vlmhyperbench.client.comparing import Regression, RunComparison
from vlmhyperbench.client.refusals import RefusedInput
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.reports.comparing import compare, rows
from vlmhyperbench.reports.samples import Samples, read_samples


def _samples(name: str, right: int, of: int = 400) -> Samples:
    facts = [fact(i, "yes" if i < right else "no", "yes", images=[f"{i:064x}"]) for i in range(of)]
    return read_samples(samples_of(evidence(facts, name=name, id=f"{name}-0000")), what=name)


def _compared(right: int, of: int = 400) -> RunComparison:
    return RunComparison(compare(_samples("base", of, of), _samples("other", right, of)))


def test_a_run_that_is_not_worse_passes() -> None:
    _compared(400).assert_no_regression("exact_match", max_drop=0.02)


@pytest.mark.parametrize(
    ("right", "of", "metric", "named"),
    [(300, 400, "exact_match", "failed"), (7, 8, "exact_match", "inconclusive"), (400, 400, "bleu", "bleu")],
)
def test_a_drop_too_few_samples_or_a_missing_metric_is_a_regression(
    right: int, of: int, metric: str, named: str
) -> None:
    with pytest.raises(AssertionError) as raised:
        _compared(right, of).assert_no_regression(metric, max_drop=0.05)
    assert isinstance(raised.value, Regression)
    assert isinstance(raised.value, VlmHyperBenchError)
    assert named in raised.value.message


def test_a_comparison_has_the_numbers_of_the_command_line() -> None:
    compared = _compared(300)
    known = compare(_samples("base", 400), _samples("other", 300))
    assert compared.to_dict() == rows(known)
    assert compared.warnings == known.warnings
    assert compared.to_polars().filter(metric="exact_match")["difference"].to_list() == [-0.25]
    assert re.match("other .* base: ", str(compared))


@pytest.mark.parametrize("create", [calls.create_run, calls.create_experiment])
def test_a_malformed_entry_is_refused_before_anything_is_sent(create: object) -> None:
    with pytest.raises(RefusedInput) as refused:
        create({"tasc": "document-qa"})
    assert refused.value.errors


def test_an_entry_can_be_a_dictionary() -> None:
    call = calls.create_run({"target": {"model": "m"}, "task": "t", "limit": 8})
    assert call.body is not None
    assert b'"limit":8' in call.body
