"""What decides whether measures of another run may be kept."""

from __future__ import annotations

import polars
import pytest

from tests.shared.reports.builders import metric_spec, run_spec
from vlmhyperbench.domain import identity
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench_eval_worker import kept_measures
from vlmhyperbench_eval_worker.kept_measures import Asked, fingerprint
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def test_under_other_rules_of_scoring_measures_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, metric = run_spec(metrics=(ExactMatch(),)), metric_spec(ExactMatch())
    asked = Asked(spec=spec, manifest_id="m", metric=metric, extractor=TEXT, rows=polars.DataFrame({"text": ["yes"]}))

    def both() -> tuple[str, str]:
        named = identity.identify(spec, metric=metric, extractor=TEXT, manifest_id="m", engines=[], environment="e")
        return fingerprint(asked, environment="e"), identity.id_of(named)

    before = both()
    assert both() == before
    for module in (kept_measures, identity):
        monkeypatch.setattr(module, "SCORING", identity.SCORING + 1)
    after = both()
    assert after[0] != before[0]
    assert after[1] != before[1]
