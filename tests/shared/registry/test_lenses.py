"""Lenses: what a view may name, and everything that is refused in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import errors_of, load
from tests.support.wording import Wording
from vlmhyperbench.registry.catalogue import SINGULAR
from vlmhyperbench.registry.errors import RegistryErrors

GOOD = """\
question: Which is best?
task: t
where: [state=SUCCEEDED, note~nightly, spec.decoding.temperature=0]
constraints: [metrics.anls>=0.5, metrics.anls@paper.n_scored>=30, manifest.machine.cores>4, validity=valid]
preferences: {metrics.anls: higher, latency_ms.p99: lower, spec.decoding.temperature: lower}
columns: [target, metrics.cer.low]
order: -metrics.anls
"""


def test_a_lens_is_a_question_with_candidates_constraints_and_preferences(tmp_path: Path) -> None:
    lens = load(tmp_path, {"lenses/best.yaml": GOOD}).lenses["best"]
    assert lens.constraints[0] == "metrics.anls>=0.5"
    assert next(iter(lens.preferences.items())) == ("metrics.anls", "higher")
    assert SINGULAR["lenses"] == "lens"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("task: t", "task: tt"),
        ("state=SUCCEEDED", "sate=SUCCEEDED"),
        ("note~nightly", "note"),
        ("metrics.anls>=0.5", "metrics.anlss>=0.5"),
        ("metrics.anls>=0.5", "metrics.anls>=much"),
        ("metrics.anls>=0.5", "target>=1"),
        ("metrics.anls>=0.5", "target~x"),
        ("latency_ms.p99: lower", "latency_ms.p95: lower"),
        ("latency_ms.p99: lower", "target: lower"),
        ("latency_ms.p99: lower", "latency_ms.p99: less"),
        ("[target, metrics.cer.low]", "[target, metrics.bleu.low]"),
        ("order: -metrics.anls", "order: '-'"),
        ("question: Which is best?", "questoin: Which is best?"),
    ],
)
def test_what_no_run_can_have_is_refused_at_its_line(tmp_path: Path, good: str, bad: str, wording: Wording) -> None:
    errors = errors_of(tmp_path, {"lenses/best.yaml": GOOD.replace(good, bad)})
    assert errors
    wording("\n".join(errors))


def test_a_broken_lens_is_found_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(RegistryErrors) as refused:
        load(tmp_path, {"lenses/best.yaml": "task: none\n"})
    assert {error.field for error in refused.value.errors} == {"question", "preferences"}
