"""The stage fingerprint, which decides whether measures of another run are reused."""

from __future__ import annotations

import polars
import pytest

from tests.shared.reports.builders import metric_spec, run_spec
from vlmhyperbench.domain import identity
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench_eval_worker import stored_measures
from vlmhyperbench_eval_worker.stored_measures import MetricInput, fingerprint
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def test_another_version_of_the_scoring_changes_fingerprint_and_evaluation_id(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, metric = run_spec(metrics=(ExactMatch(),)), metric_spec(ExactMatch())
    rows = polars.DataFrame({"text": ["yes"]})
    source = MetricInput(spec=spec, manifest_id="m", metric=metric, extractor=TEXT, host=None, rows=rows)

    def both() -> tuple[str, str]:
        named = identity.identify(spec, metric=metric, extractor=TEXT, manifest_id="m", engines=[], environment="e")
        return fingerprint(source, environment="e"), identity.id_of(named)

    before = both()
    assert both() == before
    for module in (stored_measures, identity):
        monkeypatch.setattr(module, "SCORING", identity.SCORING + 1)
    after = both()
    assert after[0] != before[0]
    assert after[1] != before[1]
