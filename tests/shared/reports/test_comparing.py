"""Runs compared from their samples files: the same numbers as in reports, gates, and what builds read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import polars
import pytest

from tests.shared.reports.builders import (
    claim,
    comparison_of,
    evidence,
    fact,
    facts_frame,
    measures,
    metric_spec,
    reported,
    run_spec,
    samples_of,
)
from tests.support.wording import Wording
from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.reports.comparing import Comparison, adjust, compare, rows, sections, tables, to_junit, verdict
from vlmhyperbench.reports.document import Table
from vlmhyperbench.reports.samples import Samples, read_samples
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.differences import Paired, pair_all, pair_runs
from vlmhyperbench.reports.writers.markdown import sections_to_markdown
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.scoring.reported import reported_metric
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, name_metrics
from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_structure_metrics.structural_fidelity import StructuralFidelity
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch

ANSWERS = ["yes", "yes", "yes", "no", "yez", None]


def run(name: str, answers: Sequence[str | None] = ANSWERS, **changes: object) -> RunEvidence:
    """Make a run whose references all are `yes`."""
    found = [fact(i, answer, "yes", images=[f"{i:064x}"]) for i, answer in enumerate(answers)]
    return evidence(found, name=name, metrics=(ExactMatch(), Cer()), **changes)


def samples(of: RunEvidence) -> Samples:
    return read_samples(samples_of(of), what="a file")


def pair(baseline: RunEvidence, other: RunEvidence) -> Paired:
    return pair_runs(reported(baseline), reported(other))


def policy(*rules: dict[str, object], **options: object) -> GatePolicy:
    return GatePolicy.model_validate({"rules": rules, **options})


def warnings_of(comparison: Comparison) -> str:
    """Return the warnings, a line each."""
    return "\n".join(comparison.warnings)


BASELINE = run("base")
BETTER = run("better", ["yes"] * 6)


def test_a_comparison_from_files_equals_that_of_the_report(wording: Wording) -> None:
    compared = compare(samples(BASELINE), samples(BETTER))
    expected = pair(BASELINE, BETTER)
    assert list(compared.deltas.values()) == expected.deltas
    assert list(compared.deltas) == ["exact_match", "cer"]
    assert compared.flips == expected.flips
    assert compared.flips is not None
    assert (compared.flips.mended, compared.flips.broke, compared.flips.pairs) == (2, 0, 5)
    assert compared.is_met is None
    wording(warnings_of(compared))


def test_a_comparison_warns_of_other_samples_and_of_metrics_that_only_one_run_has(wording: Wording) -> None:
    other = run("other", manifest_id="8" * 64)
    wording(warnings_of(compare(samples(BASELINE), samples(other))))
    fewer = evidence([fact(0, "yes", "yes")], name="fewer", metrics=(Anls(),))
    compared = compare(samples(BASELINE), samples(fewer))
    wording(warnings_of(compared))
    assert (compared.deltas, compared.flips) == ({}, None)
    wording(verdict(compared))


GOOD = run("good", ["yes"] * 6)


def table_of(compared: Comparison, name: str) -> Table:
    (table,) = [table for table in tables(compared) if table.name == name]
    return table


def changes(compared: Comparison) -> list[object]:
    """Return the changes of the speeds, without that of the memory, which is the last row."""
    return [row[3] for row in table_of(compared, "speeds").rows[:-1]]


def test_speeds_under_another_load_are_warned_of_and_not_compared(wording: Wording) -> None:
    assert changes(compare(samples(GOOD), samples(run("alike", ["yes"] * 6)))) == ["+0%"] * 5
    busier = run_spec(metrics=(ExactMatch(), Cer()), on_invalid="zero", scenario=ScenarioSpec(in_flight=8))
    compared = compare(samples(GOOD), samples(run("other", ["yes"] * 6, spec=busier)))
    wording(warnings_of(compared))
    assert changes(compared) == ["–"] * 5


def test_speeds_of_two_kinds_of_machine_are_warned_of_and_not_compared(wording: Wording) -> None:
    large = claim(machine={"cpu_model": "CPU", "cpu_threads": 2, "devices": [{"kind": "gpu", "name": "H100"}]})
    compared = compare(samples(GOOD), samples(run("large", ["yes"] * 6, claims=[large])))
    wording(warnings_of(compared))
    assert changes(compared) == ["–"] * 5
    wording(comparison_of("e", "d", "DONE", [GOOD, run("large", ["yes"] * 6, claims=[large])]).verdict[1])


def test_a_degraded_run_is_warned_of_with_what_was_given_up_and_a_smaller_load_is_not(wording: Wording) -> None:
    steps = [
        {"rung": "fewer parallel slots", "before": "parallel=4", "after": "parallel=1", "is_lossy": False},
        {"rung": "KV cache in q8_0", "before": "cache_type=f16", "after": "cache_type=q8_0", "is_lossy": True},
    ]
    smaller = run("smaller", ["yes"] * 6, claims=[claim(environment={"fallbacks": steps[:1]})])
    assert "degraded" not in warnings_of(compare(samples(GOOD), samples(smaller)))
    degraded = run("small", ["yes"] * 6, claims=[claim(environment={"fallbacks": steps})])
    warned = compare(samples(GOOD), samples(degraded)).warnings
    wording(next(warning for warning in warned if "degraded" in warning))


def test_the_machine_of_a_claim_that_ended_before_it_measured_does_not_count() -> None:
    bare = claim(id="a", machine={"system": "Linux", "kernel": "6", "cpu_threads": 2})
    assert compare(samples(GOOD), samples(run("tried", ["yes"] * 6, claims=[bare, claim()]))).warnings == ()


def test_repeats_that_only_one_run_asked_are_not_lost() -> None:
    again = [fact(i, "yes", "yes", repeat=i // 6, key=f"s{i % 6}", images=[f"{i % 6:064x}"]) for i in range(18)]
    often = evidence(again, name="often", metrics=(ExactMatch(), Cer()))
    rules = policy({"metric": "exact_match", "max_drop": 0.5})
    compared = compare(samples(GOOD), samples(often), policy=rules)
    delta = compared.deltas["exact_match"]
    assert (delta.pairs, delta.lost, compared.is_met) == (6, 0, True)


def test_a_limit_of_a_value_needs_no_pair() -> None:
    spec = run_spec(metrics=(ExactMatch(), Cer()))
    spec = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"name": "receipts"})})
    other = run("receipts", ["yes"] * 6, spec=spec, manifest_id="8" * 64)
    rules = policy({"metric": "exact_match", "min_value": 0.9, "max_drop": 0.5}, {"metric": "none", "min_value": 0.1})
    compared = compare(samples(BASELINE), samples(other), policy=rules)
    assert [(check.rule, check.status) for check in compared.checks] == [
        ("exact_match max_drop", "failed"),
        ("exact_match min_value", "passed"),
        ("none", "failed"),
    ]


def test_speeds_of_an_interrupted_run_are_warned_of_and_not_compared(wording: Wording) -> None:
    other = run("other", ["yes"] * 6)
    cut = replace(other, claims=[claim(id="a", job_id="job"), claim(job_id="job")])
    halves = cut.facts.with_columns(
        claim_id=polars.when(polars.col("ordinal") < 2).then(polars.lit("a")).otherwise("claim_id")
    )
    compared = compare(samples(GOOD), samples(replace(cut, facts=halves)))
    wording(warnings_of(compared))
    assert rows(compared)["validity"] == {"baseline": "not known", "other": "interrupted"}
    assert changes(compared) == ["–"] * 5


def test_memory_of_accelerators_is_not_compared_with_that_of_processes(wording: Wording) -> None:
    on_gpu, on_cpu = (
        samples(replace(GOOD, claims=[claim(resources={name: 2**30})]))
        for name in ("accelerator_memory_used_bytes_peak", "engine_rss_bytes_peak")
    )
    for other, change in ((on_cpu, "+0%"), (on_gpu, "–")):
        speeds = table_of(compare(on_cpu, other), "speeds")
        assert speeds.rows[-1][3] == change
        wording(speeds.note)
    busier = run_spec(metrics=(ExactMatch(), Cer()), on_invalid="zero", scenario=ScenarioSpec(in_flight=8))
    compared = compare(
        on_cpu,
        samples(replace(GOOD, spec=busier, claims=[claim(resources={"accelerator_memory_used_bytes_peak": 2**30})])),
    )
    wording(table_of(compared, "speeds").note)


def test_another_profile_of_a_metric_is_another_metric() -> None:
    first = evidence(name="paper", metrics=(Anls(),))
    second = evidence(name="inclusive", metrics=(Anls(profile="inclusive"),))
    assert compare(samples(first), samples(second)).deltas == {}
    assert pair(first, second).deltas == []
    assert pair(first, second).flips is None


def fidelity(name: str, **schemas: str) -> RunEvidence:
    """Make a run whose answers are objects, scored by `structural_fidelity` under other names and schemas."""
    facts = facts_frame([fact(i, f'{{"x": {i}}}', "{}") for i in range(30)])
    opened = []
    for key, kind in schemas.items():
        schema: JsonObject = {"type": kind}
        metric = StructuralFidelity(schema=schema)
        spec = metric_spec(metric).model_copy(update={"name": key, "params": {"schema": schema}})
        opened.append(OpenedMetric(spec=spec, metric=metric, environment="1" * 64, measures=measures(metric, facts)))
    return replace(evidence(name=name, metrics=()), facts=facts, total=30, scored=name_metrics(opened))


def test_metrics_that_differ_only_in_their_params_are_not_compared(wording: Wording) -> None:
    both = fidelity("both", things="object", lists="array")
    (first, second) = pair(both, both).deltas
    assert [(delta.key, delta.label) for delta in (first, second)] == [
        ("things", "Structural fidelity (things)"),
        ("lists", "Structural fidelity (lists)"),
    ]
    assert [(delta.baseline, delta.other, delta.pairs) for delta in (first, second)] == [
        (1.0, 1.0, 30),
        (0.0, 0.0, 30),
    ]
    assert compare(samples(both), samples(both)).deltas == {"things": first, "lists": second}
    before, after = fidelity("before", things="object"), fidelity("after", things="array")
    assert pair(before, after).deltas == []
    assert cases.find_flips(before, after) == []
    compared = compare(samples(before), samples(after))
    assert (compared.deltas, compared.flips) == ({}, None)
    wording(warnings_of(compared))


def test_a_score_that_a_file_reports_has_no_better_direction(wording: Wording) -> None:
    spec = reported_metric("cer")
    metric = open_metric(spec)

    def imported(name: str, value: float) -> RunEvidence:
        facts = facts_frame([fact(i, "yes", "yes", images=[f"{i:064x}"]) for i in range(40)])
        values = [value + i / 1000 for i in range(40)]
        scores = metric.measure(["yes"] * 40, [["yes"]] * 40, metadata=[{"reported": {"cer": cer}} for cer in values])
        found = facts.select("phase", "ordinal").with_columns(
            polars.lit(None, dtype=polars.String).alias("field"),
            polars.lit("text@1").alias("extractor"),
            polars.lit("scored").alias("outcome"),
            polars.Series("value", scores.values),
            polars.lit(None, dtype=polars.String).alias("reason"),
            polars.lit(value=False).alias("is_invalid"),
            *(polars.Series(f"stat.{key}", column) for key, column in scores.statistics.items()),
        )
        opened = OpenedMetric(spec=spec, metric=metric, environment="1" * 64, measures=found)
        return replace(evidence(name=name, metrics=()), facts=facts, total=40, scored=name_metrics([opened]))

    first, second = imported("first", 0.1), imported("second", 0.3)
    rules = policy({"metric": "reported cer", "max_drop": 0.5})
    compared = compare(samples(first), samples(second), policy=rules)
    delta = compared.deltas["reported cer"]
    assert (delta.difference, delta.verdict) == (pytest.approx(0.2), "differs")
    assert (delta.wins, delta.ties, delta.losses) == (None, 0, None)
    assert (compared.checks[0].status, compared.is_met) == ("inconclusive", False)
    document = comparison_of("e", "demo", "DONE", [first, second])
    wording(document.verdict[0])
    names = {getattr(block, "name", "") for section in document.sections for block in section.blocks}
    assert not {"wins", "ranks", "differences-figure"} & names


def test_runs_of_two_data_sets_are_not_paired_though_their_keys_are_the_same(wording: Wording) -> None:
    spec = run_spec(metrics=(ExactMatch(), Cer()))
    receipts = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"name": "receipts"})})
    other = run("receipts", ["yes"] * 6, spec=receipts, manifest_id="8" * 64)
    rules = policy({"metric": "exact_match", "max_drop": 0.9})
    compared = compare(samples(BASELINE), samples(other), policy=rules)
    assert (compared.deltas, compared.flips, compared.parity.pairs, compared.is_met) == ({}, None, 0, False)
    wording(warnings_of(compared))
    wording(verdict(compared))
    wording(verdict(compare(samples(BASELINE), samples(other))))
    name = f"{spec.dataset.name} {spec.dataset.version}"
    assert rows(compared)["data_sets"] == {
        "baseline": name,
        "other": f"receipts {spec.dataset.version}",
        "baseline_samples": 6,
        "other_samples": 6,
        "shared": 0,
        "equal_keys": 6,
        "is_pair": False,
        "is_same": False,
    }
    fewer = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"limit": 6, "version": "2.0.0"})})
    cut = compare(samples(BASELINE), samples(run("cut", ["yes"] * 4, spec=fewer, manifest_id="8" * 64)))
    wording(verdict(cut))
    split = spec.dataset.model_copy(update={"split": "test", "revision": "main"})
    parts = spec.model_copy(update={"dataset": split})
    elsewhere = run("elsewhere", manifest_id="8" * 64, spec=parts)
    wording(compare(samples(BASELINE), samples(elsewhere)).data_sets.sentence)
    same = compare(samples(elsewhere), samples(run("again", ["yes"] * 2, spec=parts, manifest_id="9" * 64)))
    wording(same.data_sets.sentence)
    assert compare(samples(BASELINE), samples(BETTER)).data_sets.sentence == ""
    wording(warnings_of(cut))
    assert list(cut.deltas) == ["exact_match", "cer"]
    for other_samples in ({"split": "test"}, {"params": {"tier": "dense"}}, {"path": "elsewhere"}, {"seed": 2}):
        apart = spec.model_copy(update={"dataset": spec.dataset.model_copy(update=other_samples)})
        compared = compare(samples(BASELINE), samples(run("apart", ["yes"] * 6, spec=apart, manifest_id="8" * 64)))
        assert (compared.deltas, compared.parity.pairs) == ({}, 0)
    renamed = run("renamed", ["yes"] * 6, spec=receipts)  # its samples are the same by hash
    assert list(compare(samples(BASELINE), samples(renamed)).deltas) == ["exact_match", "cer"]


def test_a_gate_is_inconclusive_where_one_run_lacks_answers(wording: Wording) -> None:
    rules = policy({"metric": "exact_match", "max_drop": 0.5})
    many = run("many", ["yes"] * 40)
    for few in (run("few", ["yes"] * 10), run("cut", ["yes"] * 10, total=40)):
        compared = compare(samples(many), samples(few), policy=rules)
        assert compared.deltas["exact_match"].lost == 30
        wording(warnings_of(compared))
        (check,) = compared.checks
        assert (check.status, compared.is_met) == ("inconclusive", False)
        wording(check.message)


def test_a_later_turn_is_paired_with_the_same_question_of_a_single_turn() -> None:
    single = run("single", ["yes"] * 40)
    rows_of = [fact(i, "yes" if i < 10 else "no", "yes", turn=i // 10, images=[f"{i:064x}"]) for i in range(40)]
    talk = evidence(rows_of, name="talk", metrics=(ExactMatch(), Cer()))
    (delta, _) = pair(single, talk).deltas
    assert (delta.pairs, delta.lost, delta.baseline, delta.other, delta.verdict) == (40, 0, 1.0, 0.25, "worse")
    assert compare(samples(single), samples(talk)).parity.same == 10


def test_a_gate_is_met_or_not_and_says_why(wording: Wording) -> None:
    rules = policy({"metric": "exact_match", "min_value": 0.9}, {"share": "infrastructure_failures", "max": 0.1})
    good, bad = (compare(samples(BASELINE), samples(other), policy=rules) for other in (BETTER, BASELINE))
    assert (good.is_met, bad.is_met) == (True, False)
    wording(verdict(good))
    wording(verdict(bad))
    wording("\n".join(check.message for check in bad.checks))
    assert rows(bad)["gate"]["met"] is False


def test_a_rule_of_equal_settings_compares_the_pinned_specs() -> None:
    other = run("other", spec=run_spec(metrics=(ExactMatch(), Cer()), on_invalid="zero", task="another"))
    compared = compare(samples(BASELINE), samples(other), policy=policy({"same": ["task", "dataset"]}))
    assert [check.status for check in compared.checks] == ["failed", "passed"]


def test_junit_has_a_suite_per_run_and_a_case_per_rule() -> None:
    rules = policy({"metric": "exact_match", "min_value": 0.9}, {"speed": "peak_memory_bytes", "max_increase": 0.1})
    others = (BASELINE, run("b\x00<&", ["yes"]))
    compared = [compare(samples(BASELINE), samples(other), policy=rules) for other in others]
    root = ElementTree.fromstring(to_junit(compared, is_lenient=True))
    first, second = root
    assert [case.get("name") for case in first] == ["exact_match min_value", "peak_memory_bytes"]
    assert (first.get("failures"), second.get("failures")) == ("1", "0")
    assert second.get("name") == "b\N{REPLACEMENT CHARACTER}<&"


@pytest.mark.parametrize(("is_lenient", "failures", "skipped"), [(True, "0", "1"), (False, "1", "0")])
def test_an_inconclusive_rule_fails_or_is_skipped_by_the_policy(is_lenient: bool, failures: str, skipped: str) -> None:
    rules = policy({"metric": "exact_match", "max_drop": 0.01})
    first, second = (
        run(name, ["no" if i == wrong else "yes" for i in range(10)]) for name, wrong in (("a", 3), ("b", 4))
    )
    compared = compare(samples(first), samples(second), policy=rules)
    assert compared.checks[0].status == "inconclusive"
    (suite,) = ElementTree.fromstring(to_junit([compared], is_lenient=is_lenient))
    assert (suite.get("failures"), suite.get("skipped")) == (failures, skipped)


def test_markdown_for_a_build_holds_differences_speeds_and_the_gate(wording: Wording) -> None:
    rules = policy({"metric": "cer", "max_value": 0.5}, {"metric": "exact_match", "max_drop": 0.5})
    compared = [compare(samples(BASELINE), samples(run("a|b", ["yes"] * 6)), policy=rules)]
    text = sections_to_markdown("Comparison", sections(compared)).decode()
    wording(text)
    assert [table.name for table in tables(compared[0])] == ["deltas", "parity", "parity-a|b", "speeds", "gate"]


def test_speeds_that_a_gate_voids_are_invalid_in_a_comparison_too(wording: Wording) -> None:
    speeds = table_of(compare(samples(BASELINE), samples(run("b", ["yes"] * 6))), "speeds")
    assert speeds.title == "Speed: INVALID"
    wording(speeds.note)


def test_several_runs_are_adjusted_together_in_files_and_in_the_report_alike() -> None:
    others = [BETTER, run("other", ["no"] * 6)]
    compared = adjust([compare(samples(BASELINE), samples(other)) for other in others])
    paired = pair_all([reported(side) for side in (BASELINE, *others)])
    assert [list(comparison.deltas.values()) for comparison in compared] == [pair.deltas for pair in paired]
    assert {delta.tested for pair in paired for delta in pair.deltas} == {4}
