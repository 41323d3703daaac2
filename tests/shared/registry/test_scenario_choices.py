"""Scenarios of runs: registered, with values of their own, or written out; and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, load
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry


def _spec(catalogue: Catalogue, scenario: object) -> RunSpec:
    run = RunEntry.model_validate({"target": {"model": "m"}, "task": "t", "scenario": scenario})
    return resolve_run(catalogue, run, plugins=Shelf())


def test_a_scenario_of_one_s_own_needs_no_registration(tmp_path: Path) -> None:
    spec = _spec(load(tmp_path), {"name": "mine", "kind": "offline", "in_flight": 9})
    assert (spec.scenario.name, spec.scenario.in_flight) == ("mine", 9)


def test_a_bound_of_a_run_replaces_that_of_the_scenario(tmp_path: Path, wording: Wording) -> None:
    minute = "kind: server\narrivals: {rate_per_s: 2, process: ramp, last_rate_per_s: 4}\nduration_s: 60\n"
    task = "dataset: d\nprompt: p\nmetrics: [cer]\nreports: [html]\nscenarios: [minute]\n"
    catalogue = load(tmp_path, {"scenarios/minute.yaml": minute, "tasks/t.yaml": task})
    whole, shorter = _spec(catalogue, "minute"), _spec(catalogue, {"name": "minute", "duration_s": 10})
    counted = _spec(catalogue, {"name": "minute", "requests": 7})
    assert [spec.scenario.bound for spec in (whole, shorter, counted)] == [180, 30, 7]
    wording(counted.scenario.in_words)


def test_arrivals_of_one_s_own_change_only_what_they_say(tmp_path: Path) -> None:
    bursty = "kind: server\narrivals: {rate_per_s: 2, process: gamma, cv: 3}\n"
    task = "dataset: d\nprompt: p\nmetrics: [cer]\nreports: [html]\nscenarios: [bursty]\n"
    catalogue = load(tmp_path, {"scenarios/bursty.yaml": bursty, "tasks/t.yaml": task})
    arrivals = _spec(catalogue, {"name": "bursty", "arrivals": {"rate_per_s": 8}}).scenario.arrivals
    assert arrivals is not None
    assert (arrivals.process, arrivals.cv, arrivals.rate_per_s) == ("gamma", 3, 8)


@pytest.mark.parametrize(
    "scenario",
    [
        {"name": "x", "kind": "server"},
        {"name": "single", "arrivals": {"rate_per_s": 1}},
        {"name": "x", "kind": "server", "arrivals": {"rate_per_s": 1}, "requests": 1, "duration_s": 1},
        {"name": "x", "kind": "server", "arrivals": {"rate_per_s": 1000}, "duration_s": 5000},
        {"name": "x", "kind": "offline", "baseline_requests": 3},
        {"name": "x", "kind": "interactive"},
        {"name": "single", "think_s": 1},
        {"name": "x", "kind": "offline", "preset": "vlm"},
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, scenario: object, wording: Wording) -> None:
    with pytest.raises(RegistryErrors) as refused:
        _spec(load(tmp_path), scenario)
    wording("\n".join(map(str, refused.value.errors)))
