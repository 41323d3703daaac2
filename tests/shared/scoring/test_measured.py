"""The measures of one metric on a run's facts, as a file."""

from __future__ import annotations

import io

import polars
import pytest

from tests.support.wording import Wording
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, SourceRef
from vlmhyperbench.scoring.measured import FACT_COLUMNS, MeasuredMetric, measure_metric, packages_of
from vlmhyperbench.scoring.reported import reported_metric
from vlmhyperbench_eval_worker.stored_measures import environment_of
from vlmhyperbench_sdk.errors import Conflict, InvalidInput
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.exact_match import ExactMatch

EXACT = MetricSpec(name="exact_match", profile="v1", version="1.0.0", class_path="exact_match")
FINAL = ExtractorSpec(name="final_answer", version=2)
CER = MetricSpec(name="cer", profile="jiwer", version="1.0.0", class_path="cer")


class Homeless:
    """A class without a distribution."""


class FromMetadata(ExactMatch):
    """Compares with what the metadata says instead of the references."""

    def measure(self, predictions, references, *, metadata=None):
        return super().measure(predictions, [[row.get("truth", "")] for row in metadata or ()])


def facts(*rows: tuple[str | None, list[str]], failure: str | None = None, metadata: str = "{}") -> polars.DataFrame:
    """One fact per (answer, references); an answer None is a failed request."""
    return polars.DataFrame(
        {
            "phase": [1] * len(rows),
            "ordinal": list(range(len(rows))),
            "status": ["error" if answer is None else "ok" for answer, _ in rows],
            "failure": [failure if answer is None else None for answer, _ in rows],
            "error_code": ["timeout" if answer is None else None for answer, _ in rows],
            "text": [answer for answer, _ in rows],
            "references": [references for _, references in rows],
            "metadata": [metadata for _ in rows],
        },
        schema_overrides={
            "phase": polars.Int32,
            "failure": polars.String,
            "error_code": polars.String,
            "text": polars.String,
            "references": polars.List(polars.String),
        },
    ).select(FACT_COLUMNS)


def read(measured: MeasuredMetric) -> polars.DataFrame:
    return polars.read_parquet(io.BytesIO(measured.content))


def measure(frame: polars.DataFrame, spec: MetricSpec = EXACT, **options: object) -> MeasuredMetric:
    return measure_metric(frame, spec, **options)


def test_every_fact_has_a_row_with_its_outcome_and_statistics() -> None:
    measured = measure(facts(("A", ["a"]), ("b", ["a"]), (None, ["a"]), ("a", [])))
    frame = read(measured)
    assert frame["ordinal"].to_list() == [0, 1, 2, 3]
    assert frame["outcome"].to_list() == ["scored", "scored", "infrastructure_failure", "unscored"]
    assert frame["value"].to_list() == [1.0, 0.0, None, None]
    assert frame["reason"].to_list() == [None, None, "timeout", "no_reference"]
    assert frame["stat.correct"].to_list() == [1.0, 0.0, 0.0, 0.0]
    assert frame["stat.count"].to_list() == [1.0, 1.0, 0.0, 0.0]
    assert set(frame["extractor"]) == {"text@1"}
    assert frame.select("phase", "field").schema == {"phase": polars.Int32, "field": polars.String}
    assert (measured.rows, measured.values) == (4, 2)


def test_the_policy_decides_whether_a_model_failure_has_a_value() -> None:
    failed = facts((None, ["a"]), failure="model")
    assert read(measure(failed))["value"].to_list() == [0.0]
    assert read(measure(failed, on_model_failure="exclude"))["value"].to_list() == [None]


def test_a_model_failure_is_zero_also_for_a_metric_that_excludes_unreadable_answers() -> None:
    spec = MetricSpec(name="anls_star", profile="paper", version="1.0.0", class_path="anls_star")
    frame = facts((None, ['{"a": 1}']), ("no JSON", ['{"a": 1}']), ('{"a": 1}', ['{"a": 1}']), failure="model")
    measured = read(measure(frame, spec))
    assert measured["value"].to_list() == [0.0, None, 1.0]
    assert measured["outcome"].to_list() == ["model_failure", "unscored", "scored"]
    assert measured["is_invalid"].to_list() == [False, True, False]


def test_a_metric_with_too_many_statistics_is_refused(wording: Wording) -> None:
    spec = MetricSpec(name="classification", profile="macro_f1", version="1.0.0", class_path="classification")
    frame = facts(*((f"answer {i}", ["a"]) for i in range(2001)))
    with pytest.raises(InvalidInput, match=r"'classification'.* 2000 ") as refused:
        measure(frame, spec)
    wording(refused.value)
    assert measure(frame.head(1000), spec).rows == 1000


def test_pooled_metrics_store_what_missing_rows_would_add_if_they_were_right() -> None:
    frame = read(measure(facts(("ab", ["ab"]), (None, ["abc"]), (None, [])), CER))
    assert frame["stat.length"].to_list() == [2.0, 0.0, 0.0]
    assert frame["right.edits"].to_list() == [None, 0.0, None]
    assert frame["right.length"].to_list() == [None, 3.0, None]


def test_a_run_without_facts_gives_an_empty_file_with_its_columns() -> None:
    frame = read(measure(facts()))
    assert frame.height == 0
    assert frame.columns == ["phase", "ordinal", "field", "extractor", "outcome", "value", "reason", "is_invalid"]


def test_an_unreadable_answer_is_counted_as_invalid_under_every_policy() -> None:
    answers = facts(("#### a", ["a"]), ("no idea", ["a"]), (None, ["a"]))
    excluded = read(measure(answers, extractor=FINAL))
    assert excluded["value"].to_list() == [1.0, None, None]
    assert excluded["outcome"].to_list() == ["scored", "unscored", "infrastructure_failure"]
    assert excluded["reason"].to_list() == [None, "invalid_output: no_final_answer", "timeout"]
    assert excluded["is_invalid"].to_list() == [False, True, False]
    assert set(excluded["extractor"]) == {"final_answer@2"}
    zero = read(measure(answers, extractor=FINAL, on_invalid="zero"))
    assert zero["value"].to_list() == [1.0, 0.0, None]
    assert zero["outcome"].to_list() == ["scored", "model_failure", "infrastructure_failure"]
    assert zero["is_invalid"].to_list() == [False, True, False]


@pytest.mark.parametrize("extractor", ["text", "json_repaired"])
@pytest.mark.parametrize(
    ("name", "profile", "reference", "params"),
    [
        ("field_f1", "exact", '{"x": "a"}', {}),
        ("field_accuracy", "exact", '{"x": "a"}', {}),
        ("anls_star", "paper", '{"x": "a"}', {}),
        ("item_count_accuracy", "count", '{"x": [{"y": "a"}]}', {}),
        ("ordering", "kendall_tau", "[2, 1]", {"opening": "["}),
    ],
)
def test_the_policy_zero_applies_to_answers_that_extractor_or_metric_cannot_read(
    extractor: str, name: str, profile: str, reference: str, params: dict[str, str]
) -> None:
    spec = MetricSpec(name=name, profile=profile, version="1.0.0", class_path=name)
    reading = ExtractorSpec(name=extractor, params={} if extractor == "text" else params)
    answers = facts((reference, [reference]), ("I cannot read this.", [reference]))
    zero = measure(answers, spec, extractor=reading, on_invalid="zero")
    frame = read(zero)
    assert (frame["value"].to_list(), frame["is_invalid"].to_list(), zero.values) == ([1.0, 0.0], [False, True], 2)
    excluded = measure(answers, spec, extractor=reading, on_invalid="exclude")
    frame = read(excluded)
    assert (frame["value"].to_list(), frame["is_invalid"].to_list()) == ([1.0, None], [False, True])
    assert zero.identity == excluded.identity


def test_a_metric_s_own_policy_for_unreadable_answers_overrides_that_of_the_run() -> None:
    spec = MetricSpec(
        name="field_f1", profile="exact", version="1.0.0", class_path="field_f1", params={"on_invalid": "exclude"}
    )
    frame = read(
        measure(facts(("no JSON", ['{"x": "a"}']), (None, ['{"x": "a"}']), failure="model"), spec, on_invalid="zero")
    )
    assert frame["value"].to_list() == [None, 0.0]
    assert frame["is_invalid"].to_list() == [True, False]


def test_metadata_reaches_the_metric() -> None:
    spec = MetricSpec(
        name="own", profile="v1", version="1.0.0", class_path="tests.shared.scoring.test_measured:FromMetadata"
    )
    assert read(measure(facts(("b", ["a"]), metadata='{"truth": "b"}'), spec))["value"].to_list() == [1.0]


def test_what_a_file_reports_is_a_score_and_a_sample_s_own_metadata_never_is() -> None:
    own = facts(("x", ["x"]), ("y", ["y"]), metadata='{"reported": {"acc": 0.9}}')
    reported = polars.Series("reported", ['{"acc": 0.5}', None], dtype=polars.String)
    frame = read(measure(own.with_columns(reported), reported_metric("acc")))
    assert frame["value"].to_list() == [0.5, None]
    assert frame["reason"].to_list() == [None, "not_reported"]


def test_code_of_a_metric_that_was_edited_since_the_run_was_submitted_is_a_conflict() -> None:
    path = "tests.shared.scoring.test_measured:FromMetadata"
    other = SourceRef(module=path.partition(":")[0], sha256="0" * 64)
    spec = MetricSpec(name="own", profile="v1", version="1.0.0", class_path=path, package=other)
    for use in (lambda: measure(facts(("b", ["a"])), spec), lambda: environment_of(spec)):
        with pytest.raises(Conflict) as refused:
            use()
        assert refused.value.code == "plugin_version"


def test_the_identity_has_name_profile_version_and_parameters() -> None:
    measured = measure(facts(("a", ["a"])), EXACT.model_copy(update={"params": {"yo_fold": True}}))
    assert measured.identity == {
        "name": "exact_match",
        "profile": "v1",
        "version": "1.0.0",
        "class_path": "exact_match",
        "extractor": "text@1",
        "package": "vlmhyperbench-text-metrics==0.1.0",
        "params": {"yo_fold": True},
    }


def test_the_packages_are_the_plugin_what_it_requires_and_python() -> None:
    packages = packages_of(Anls)
    assert next(iter(packages)) == "vlmhyperbench-text-metrics"
    assert {"rapidfuzz", "jiwer", "sacrebleu", "numpy", "vlmhyperbench-sdk", "python"} <= set(packages)


def test_a_class_without_a_distribution_has_only_python() -> None:
    assert list(packages_of(Homeless)) == ["python"]
    assert "python" in packages_of(polars.DataFrame)
    assert "polars" in packages_of(polars.DataFrame)
