"""Read what a comparison needs of a whole run from its summary, or from a samples file of the first version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from pydantic import JsonValue

from vlmhyperbench.analysis.gates import Side, WholeRun, number_of
from vlmhyperbench.domain.identity import Measurement, kinds_of_machines
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.steps import asks_the_run
from vlmhyperbench.summaries.headline import headline_row
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.types import JsonObject


def side_of(summary: RunSummary) -> Side:
    """Return what a comparison needs of a run, from its summary."""
    return Side(
        metrics={
            score.key: WholeRun(
                value=score.value,
                lower=score.lower,
                upper=score.upper,
                without=score.n_unscored,
                lost={"unscored": score.unscored, "invalid": score.n_invalid},
            )
            for score in summary.metrics
        },
        headline=cast("dict[str, JsonValue]", headline_row(summary)),
        counts={name: float(value) for name, value in asdict(summary.counts).items() if value is not None},
        spec=summary.spec.model_dump(mode="json"),
        measurement=summary.measurement,
        is_interrupted=summary.performance.is_no_measure,
        is_stopped=summary.is_stopped,
        degraded=tuple(
            f"{step.get('rung')} ({step.get('before')} → {step.get('after')})"
            for step in summary.fallbacks
            if step.get("is_lossy") is True
        ),
    )


def side_of_first_version(meta: JsonObject) -> Side:
    """Return what a comparison needs of a run, from the metadata of a samples file of the first version."""
    data, headline = _object(meta, "data"), _object(meta, "headline")
    counts, metrics, spec = _object(data, "counts"), _object(headline, "metrics"), _object(data, "spec")
    claims = data.get("claims")
    measuring = [claim for claim in claims if isinstance(claim, dict)] if isinstance(claims, list) else []
    manifest_id = meta.get("manifest_id")
    return Side(
        metrics={name: _whole_run(_object(metrics, name)) for name in metrics},
        headline=cast("dict[str, JsonValue]", headline),
        counts={name: float(value) for name, value in counts.items() if isinstance(value, int | float)},
        spec=cast("dict[str, JsonValue]", spec),
        measurement=Measurement(
            scenario=ScenarioSpec.model_validate(_object(spec, "scenario")),
            manifest_id=manifest_id if isinstance(manifest_id, str) else None,
            machines=kinds_of_machines(
                _object(claim, "machine") for claim in measuring if asks_the_run(str(claim["job"]))
            ),
        ),
        is_interrupted=meta.get("is_interrupted") is True,
        is_stopped=data.get("is_stopped") is True,
    )


def _whole_run(metric: JsonObject) -> WholeRun:
    return WholeRun(
        value=number_of(metric.get("value")),
        lower=number_of(metric.get("lower")),
        upper=number_of(metric.get("upper")),
        without=number_of(metric.get("n_without_value")) or 0.0,
        lost={name: number_of(metric.get(name)) or 0.0 for name in ("unscored", "invalid")},
    )


def _object(parent: JsonObject, name: str) -> JsonObject:
    value = parent.get(name)
    return value if isinstance(value, Mapping) else {}
