"""A judge's entry, pinned: its target, prompt and extractor; and what is wrong with one that cannot work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.domain.judging import judging_of, judging_spec
from vlmhyperbench.domain.specs import ModelTarget, RunSpec
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

REGISTRIES = Path(__file__).parents[3] / "registries"
ENTRY = """\
description: Judges.
class_path: vlmhyperbench.scoring.judge:Judge
profile: v1
params:
"""
WISE = """\
  target: {model: simulated}
  prompt: judge-same-answer
"""


def resolve(folder: Path, params: str, **changes: object) -> RunSpec:
    """Pin a run that is judged, in a copy of the shipped registries with one judge more."""
    registries = folder / "registries"
    shutil.copytree(REGISTRIES, registries)
    (registries / "metrics" / "wise.yaml").write_text(ENTRY + params)
    given = {"target": {"model": "simulated"}, "task": "synthetic-questions", "metrics": ["exact_match", "wise"]}
    return resolve_run(load_catalogue(registries), RunEntry.model_validate({**given, **changes}))


def test_a_judge_is_pinned_with_its_target_and_prompt(tmp_path: Path) -> None:
    judging = judging_of(resolve(tmp_path, WISE).metrics[1])
    assert isinstance(judging.target, ModelTarget)
    assert (judging.target.model, judging.target.backend_class) == ("simulated", "simulated")
    assert (judging.prompt.name, judging.title) == ("judge-same-answer", "wise")
    assert (judging.labels, judging.swap, judging.decoding.temperature) == ({"yes": 1.0, "no": 0.0}, True, 0.0)
    assert judging.prompt.user_prompt.startswith("Question: {{ question }}")


def test_what_a_judge_says_of_decoding_is_laid_over_its_own_defaults(tmp_path: Path) -> None:
    decoding = judging_of(resolve(tmp_path, WISE + "  decoding: {n: 2}\n").metrics[1]).decoding
    assert (decoding.n, decoding.max_tokens) == (2, 64)


@pytest.mark.parametrize(
    "params",
    [
        "  prompt: judge-same-answer\n",
        WISE + "  repeats: 3\n",
        WISE + "  labels: {yes: 2}\n",
        WISE + "  extractor: chioce\n",
        WISE.replace("simulated", "simulatd"),
        WISE.replace("judge-same-answer", "judge-same"),
    ],
)
def test_what_is_wrong_with_a_judge_is_said(tmp_path: Path, params: str, wording: Wording) -> None:
    with pytest.raises(RegistryErrors) as refused:
        resolve(tmp_path, params)
    wording("\n".join(map(str, refused.value.errors)))


def test_a_run_that_may_stop_is_not_judged(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(RegistryErrors) as refused:
        resolve(tmp_path, WISE, stop={"rule": "better"})
    wording(refused.value)


def test_a_judge_without_prices_says_why(tmp_path: Path) -> None:
    spec = resolve(tmp_path, WISE)
    judging = judging_of(spec.metrics[1])
    assert judging.prices is None
    assert "simulated" in (judging.unpriced or "")
    assert judging_spec(spec, judging).unpriced == judging.unpriced
