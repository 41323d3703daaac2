"""A metric in a process of its own gives what it gives here, and whatever it does is a row's reason or an error."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.shared.scoring.test_measured import EXACT, facts
from tests.support.metrics_apart import Wilful
from tests.support.processes import PATIENCE_S, ROOT, is_alive, wait_until_ended
from tests.support.wording import Wording
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.metric_process import MetricHost, MetricLost, end_processes, process_of
from vlmhyperbench.processes import child_environment
from vlmhyperbench.scoring import apart
from vlmhyperbench.scoring.apart import MetricApart, open_apart
from vlmhyperbench.scoring.measured import measure_metric
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench.scoring.metrics import host_of, is_combined_apart, open_failing, open_metric, open_stored
from vlmhyperbench_sdk.discovery import construct_metric
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, NotFound, NotReady, PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.testing.metrics import HOSTILE_CASES, PLAIN_CASES, MetricCase
from vlmhyperbench_sdk.types import JsonValue

WILFUL = f"{Wilful.__module__}:{Wilful.__qualname__}"
ENVIRONMENT = VirtualenvSpec(requirements=("wilful==1.0.0",))
SPEC = MetricSpec(name="wilful", profile="v1", version="1.0.0", class_path=WILFUL, environment=ENVIRONMENT)
Open = Callable[..., MetricApart]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has the SDK and the metrics of tests, and nothing of the platform."""
    folder = tmp_path_factory.mktemp("metrics")
    venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "tests.pth").write_text(f"{ROOT}\n{ROOT / 'shared' / 'sdk'}\n")
    return str(folder / "bin" / "python")


def make_host(python: str) -> MetricHost:
    return MetricHost(
        python=python,
        packages={"wilful": "1.0.0"},
        mark=uuid4().hex,
        variables=child_environment(),
        memory_bytes=512 * 2**20,
        reply_s=PATIENCE_S,
    )


@pytest.fixture(scope="module")
def host(python: str) -> Iterator[MetricHost]:
    made = make_host(python)
    yield made
    end_processes(made.mark)


@pytest.fixture(scope="module")
def here() -> Iterator[MetricHost]:
    """A host of the platform's own interpreter, which has all metrics of the product."""
    made = make_host(sys.executable)
    yield made
    end_processes(made.mark)


@pytest.fixture
def wilful(host: MetricHost) -> Open:
    def run(class_path: str = WILFUL, **params: JsonValue) -> MetricApart:
        return open_apart(class_path, {"profile": "v1", **params}, optional={}, name="wilful", host=host)

    return run


def measured(metric: Metric, *texts: str) -> list[tuple[float | None, str | None]]:
    rows = measure_all(metric, texts, [("a",)] * len(texts), [{}] * len(texts))
    return [(row.value, row.reason) for row in rows]


@pytest.mark.parametrize("name", ["anls", "exact_match", "bleu", "chrf", "field_f1", "structural_fidelity", "ordering"])
def test_a_metric_gives_the_same_in_a_process_of_its_own(name: str, here: MetricHost) -> None:
    own = construct_metric(name, {}, name=name)
    metric = open_apart(name, {}, optional={}, name=name, host=here)
    assert metric.description == own.description
    assert (metric.distribution or "").startswith("vlmhyperbench-")
    cases = [*PLAIN_CASES, *HOSTILE_CASES, MetricCase(prediction='{"total": 1}', references=('{"total": 2}',))]
    predictions, references = [case.prediction for case in cases], [case.references for case in cases]
    expected = measure_all(own, predictions, references, [case.metadata for case in cases])
    assert measure_all(metric, predictions, references, [case.metadata for case in cases]) == expected
    sums = [measure.statistics for measure in expected if measure.value is not None]
    assert [metric.combine(each) for each in sums] == [own.combine(each) for each in sums]


def test_batches_of_any_size_are_one_and_a_statistic_of_some_parts_is_0_in_others(
    wilful: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "BATCH_ROWS", 2)
    metric = wilful()
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    measures = metric.measure(texts, [["x"]] * 5, metadata=[{}, {}, {"own": 3}, {}, {}])
    assert measures.values == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert measures.statistics["own"] == [0.0, 0.0, 3.0, 0.0, 0.0]
    assert measures.statistics["of"] == [1.0] * 5
    assert metric.measure([], []).values == []


@pytest.mark.parametrize(
    "text",
    ["!raise ValueError", "!give nan", "!give decimal", "!give bool", "!give text", "!short"],
)
def test_what_one_answer_causes_is_the_reason_of_its_row_as_it_is_here(wilful: Open, text: str) -> None:
    texts = ["a", "bb", text, "dddd", "eeeee"]
    rows = measured(wilful(), *texts)
    assert rows == measured(Wilful(), *texts)
    assert [value for value, _ in rows] == [1.0, 2.0, None, 4.0, 5.0]


@pytest.mark.parametrize(("text", "reason"), [("!raise SystemExit", "SystemExit: no"), ("!eat 600", "MemoryError: ")])
def test_a_metric_that_exits_or_takes_too_much_memory_for_one_answer_loses_that_row(
    host: MetricHost, wilful: Open, text: str, reason: str
) -> None:
    metric, process = wilful(), process_of(host)
    assert measured(metric, "a", text) == [(1.0, None), (None, f"metric_error: {reason}")]
    assert process_of(host) is process


def test_numbers_of_other_libraries_are_numbers(wilful: Open) -> None:
    assert measured(wilful(), "!give fraction") == [(0.5, None)]


def test_what_a_metric_prints_or_reads_does_not_reach_the_protocol(wilful: Open) -> None:
    assert measured(wilful(), "!print hello", "ok") == [(0.0, None), (2.0, None)]


@pytest.mark.parametrize("text", ["!end exit", "!end kill"])
def test_a_process_that_ends_fails_the_whole_and_the_next_question_starts_another(
    host: MetricHost, wilful: Open, text: str, wording: Wording
) -> None:
    end_processes(host.mark)  # so that nothing was printed before
    metric = wilful()
    with pytest.raises(MetricLost) as lost:
        measured(metric, "a", text)
    assert lost.value.code == "metric_lost"
    wording(lost.value)
    assert measured(metric, "a") == [(1.0, None)]


def test_a_process_that_hangs_is_killed(host: MetricHost, wilful: Open, wording: Wording) -> None:
    end_processes(host.mark)  # so that nothing was printed before
    metric = wilful()
    process = process_of(host)
    with pytest.raises(MetricLost) as lost:
        measured(replace(metric, host=replace(host, reply_s=0.5)), "!hang")
    wording(lost.value)
    assert not process.is_running


def test_a_process_that_replies_nonsense_is_killed(host: MetricHost, wilful: Open, wording: Wording) -> None:
    end_processes(host.mark)  # so that nothing was printed before
    metric = wilful("tests.support.metrics_apart:Forging")
    with pytest.raises(MetricLost) as lost:
        measured(metric, "a")
    wording(lost.value)


def test_a_process_that_crashes_when_it_is_opened_says_its_last_words(wilful: Open) -> None:
    with pytest.raises(MetricLost, match="SIGSEGV") as lost:
        wilful("tests.support.metrics_apart:Crashing")
    assert "the library is broken" in lost.value.message


def test_what_a_metric_started_ends_with_the_job(host: MetricHost, wilful: Open) -> None:
    [(pid, _)] = measured(wilful(), "!spawn")
    assert pid is not None
    assert is_alive(int(pid))
    end_processes(host.mark)
    wait_until_ended(int(pid))


@pytest.mark.parametrize(
    ("class_path", "params", "error"),
    [
        ("tests.support.metrics_apart:Wilfu", {}, NotFound),
        ("no_such_module:Metric", {}, NotFound),
        ("anls", {}, NotFound),
        (WILFUL, {"nonsense": 1}, InvalidInput),
        (WILFUL, {"breaks": "refuse"}, InvalidInput),
        (WILFUL, {"breaks": "raise"}, PluginFailure),
        (WILFUL, {"breaks": "description"}, PluginFailure),
        (WILFUL, {"breaks": "title"}, PluginFailure),
        ("antigravity_exit:Metric", {}, PluginFailure),
    ],
)
def test_a_metric_that_cannot_be_opened_says_why(
    wilful: Open,
    python: str,
    class_path: str,
    params: dict[str, JsonValue],
    error: type[VlmHyperBenchError],
    wording: Wording,
) -> None:
    [site] = Path(python).parents[1].glob("lib/python*/site-packages")
    (site / "antigravity_exit.py").write_text("import sys\nsys.exit('no licence')\n")
    with pytest.raises(error) as refused:
        wilful(class_path, **params)
    assert type(refused.value) is error
    wording(refused.value)


def test_the_pinned_spec_is_opened_once_and_where_its_environment_is(python: str, wording: Wording) -> None:
    host = make_host(python)
    assert host_of(SPEC, {}) is None
    with pytest.raises(NotReady) as unready:
        open_metric(SPEC)
    wording(unready.value)
    with pytest.raises(Conflict):
        open_metric(SPEC.model_copy(update={"version": "2.0.0"}), host)
    [spec, plain] = [SPEC.model_copy(update={"params": {"known": [1]}}), SPEC]
    assert open_metric(spec, host, optional={"on_invalid": "zero"}).description.normaliser == "zero 2 [1]"
    assert open_failing(spec, host).description.normaliser.startswith("zero 2")  # the same, and opened once
    assert open_metric(plain, host).description.normaliser.startswith("exclude 2 []")
    end_processes(host.mark)


def test_a_stored_metric_needs_no_environment_to_be_shown_and_only_a_pooled_one_to_be_combined(
    host: MetricHost, wilful: Open, wording: Wording
) -> None:
    description = asdict(wilful().description)
    assert is_combined_apart(SPEC, description)
    assert not is_combined_apart(SPEC, {**description, "aggregation": "mean"})
    assert not is_combined_apart(SPEC.model_copy(update={"environment": None}), description)
    stored = open_stored(SPEC, {**description, "range": [0.0, None]}, {}, on_invalid="zero")
    assert stored.description == wilful().description
    with pytest.raises(NotReady):
        stored.combine({"sum": 1.0, "of": 2.0})
    hosts = {digest_of(ENVIRONMENT): host}
    stored = open_stored(SPEC, {**description, "range": [0.0, None]}, hosts, on_invalid="zero")
    assert stored.combine({"sum": 1.0, "of": 2.0}) == 0.5
    plain = SPEC.model_copy(update={"environment": None})
    assert open_stored(plain, None, {}, on_invalid="zero").combine({"sum": 1.0, "of": 2.0}) == 0.5
    with pytest.raises(InvalidInput) as refused:
        open_stored(SPEC, None, {}, on_invalid="zero")
    wording(refused.value)


def test_a_metric_in_its_own_environment_stores_the_same_measures_and_what_a_report_needs_of_it(
    here: MetricHost,
) -> None:
    frame = facts(("A", ["a"]), ("b", ["a"]), (None, ["a"]), ("a", []))
    own = measure_metric(frame, EXACT)
    apart = measure_metric(frame, EXACT.model_copy(update={"environment": ENVIRONMENT}), host=here)
    assert apart.content == own.content
    assert apart.packages == {"wilful": "1.0.0"}
    described = asdict(construct_metric("exact_match", {"profile": "v1"}, name="exact_match").description)
    assert apart.identity == {**own.identity, "description": described, "packages": {"wilful": "1.0.0"}}
    assert apart.identity["package"] == "vlmhyperbench-text-metrics==0.1.0"


def test_sums_of_many_groups_are_combined_in_few_requests(wilful: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_MAX_SUMS", 4)
    rows = [(float(no), float(no % 3)) for no in range(7)]
    own = Wilful()
    assert wilful().combine.of_rows(("sum", "of"), rows) == [own.combine({"sum": a, "of": b}) for a, b in rows]


@pytest.mark.parametrize("of", [-1.0, -2.0])
def test_a_metric_that_cannot_combine_says_so(wilful: Open, of: float, wording: Wording) -> None:
    with pytest.raises(PluginFailure) as refused:
        wilful().combine({"sum": 1.0, "of": of})
    wording(refused.value)


def test_the_process_dies_with_its_parent(python: str) -> None:
    code = (
        "import sys, time; from tests.shared.scoring.test_apart import *\n"
        f"host = make_host({python!r})\n"
        "open_apart(WILFUL, {}, optional={}, name='wilful', host=host)\n"
        "print(process_of(host)._process.pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    wait_until_ended(pid)
