"""The samples file of a run: what it holds, what is refused, and files of the first version."""

from __future__ import annotations

import io
import json

import polars
import pytest

from tests.shared.reports.builders import evidence, metric_spec, reported, samples_of
from tests.shared.reports.test_comparing import BASELINE, BETTER, policy, samples
from tests.support.wording import Wording
from vlmhyperbench.reports.comparing import compare, rows
from vlmhyperbench.reports.samples import FIRST_SCHEMA, Samples, read_samples
from vlmhyperbench.summaries.codec import to_object
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.headline import headline_row
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def first_version(of: RunEvidence) -> Samples:
    """Write a samples file of the first version, which has no summary, and read it."""
    content, summary = samples_of(of), reported(of).summary
    key = "vlmhyperbench"
    found = json.loads(polars.read_parquet_metadata(io.BytesIO(content))[key])
    meta = {
        "schema": FIRST_SCHEMA,
        "run": summary.id,
        "name": summary.name,
        "manifest_id": summary.manifest_id,
        "is_interrupted": summary.performance.is_no_measure,
        "headline": headline_row(summary),
        "data": to_object(summary),
        "metrics": found["metrics"],
    }
    buffer = io.BytesIO()
    polars.read_parquet(io.BytesIO(content)).write_parquet(buffer, metadata={key: json.dumps(meta)})
    return read_samples(buffer.getvalue(), what="an old file")


def test_a_file_of_the_first_version_is_compared_like_one_of_this_version() -> None:
    gate = policy({"metric": "exact_match", "min_value": 0.5}, {"share": "invalid", "max": 0.1}, {"same": ["dataset"]})
    old = compare(first_version(BASELINE), first_version(BETTER), policy=gate)
    new = compare(samples(BASELINE), samples(BETTER), policy=gate)
    assert rows(old) == rows(new)


def test_a_run_without_metrics_has_a_file_too() -> None:
    empty = samples(evidence(metrics=()))
    assert empty.frame.height == 0
    assert empty.measured() == {}


def test_values_of_other_extractors_are_stored_but_not_compared() -> None:
    (scored,) = evidence(metrics=(ExactMatch(),)).scored
    other = type(scored)(
        spec=metric_spec(ExactMatch()),
        metric=scored.metric,
        environment=scored.environment,
        extractor="json@1",
        measures=scored.measures,
        key=scored.key,
        label=scored.label,
    )
    found = samples(evidence(metrics=(ExactMatch(),), scored_otherwise={"json@1": [other]}))
    assert set(found.frame["extractor"]) == {"text@1", "json@1"}
    assert found.measured()["exact_match"].frame.height == 6


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense PAR1", b"{}"])
def test_a_file_that_is_no_parquet_file_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^odd\.parquet .*Parquet"):
        read_samples(content, what="odd.parquet")


def test_a_parquet_file_without_samples_is_refused(wording: Wording) -> None:
    buffer = io.BytesIO()
    polars.DataFrame({"a": [1]}).write_parquet(buffer)
    with pytest.raises(InvalidInput) as refused:
        read_samples(buffer.getvalue(), what="a.parquet")
    wording(refused.value)
