"""The comparison of load generators: which reports are right, how costs are computed, and the page of results."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.loadgen_conformance.arrivals import poisson_bands
from benchmarks.loadgen_conformance.checking import errors_of, faults_of, truth_of
from benchmarks.loadgen_conformance.clients import OURS, ClientLoad, Reported
from benchmarks.loadgen_conformance.findings import Findings, Round, Spent, per_request, per_token
from benchmarks.loadgen_conformance.tables import PER_REQUEST, PER_TOKEN, write_report
from vlmhyperbench.domain.arrivals import Arrivals, Shape, draw_arrivals, shape_of

MS = 1_000_000


def record(number: int = 0, *, status: int = 200) -> dict[str, object]:
    """Write a server's record: first token at 100 ms, two more with gaps of 10 ms, every write 0.5 ms late."""
    first_ns = 1_000 * MS * number + 100 * MS
    return {
        "status": status,
        "received_ns": 1_000 * MS * number,
        "connection": number % 2,
        "event_ns": [first_ns, first_ns + 10 * MS, first_ns + 20 * MS, first_ns + 20 * MS],
        "event_kind": ["content", "content", "content", "usage"],
        "event_tokens": [1, 1, 1, 0],
        "completion_tokens": 3,
        "late_ns": [0, MS // 2, MS // 2, MS // 2],
        "text": f"answer  {number}",
    }


TRUE = truth_of([record(0), record(1), record(2, status=503)])
RIGHT = Reported(
    completed=2,
    tokens=6,
    ttft_ms=[100.25, 101.0],
    gaps_ms=[[10.0, 10.0], [10.5, 9.5]],
    tpot_p50_ms=10.0,
    texts=["answer 1", "answer 0 "],
    requests_per_s=1.0,
    tokens_per_s=3.0,
)


def test_the_truth_is_read_from_the_record_of_the_server() -> None:
    timed = [(request.ttft_ms, request.gaps_ms, request.tpot_ms) for request in TRUE.requests]
    assert timed == [(100.0, [10.0, 10.0], 10.0)] * 2
    assert (TRUE.tokens, TRUE.connections, TRUE.late_p99_ms) == (6, 2, 0.5)
    assert TRUE.received_ns == [0, 1_000 * MS, 2_000 * MS]


def test_errors_are_computed_over_pairs_of_the_same_request() -> None:
    errors = errors_of(RIGHT, TRUE)
    assert (errors.paired, errors.ttft_p50, errors.ttft_p99) == (2, 0.25, 1.0)
    assert (errors.gap_p50, errors.gap_p99) == (0.0, 0.5)
    unknown = dataclasses.replace(RIGHT, texts=["what", "who"])
    assert (errors_of(unknown, TRUE).paired, errors_of(unknown, TRUE).ttft_p50) == (0, None)


def test_a_right_report_has_no_fault() -> None:
    assert faults_of(RIGHT, TRUE) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"ttft_ms": [1.9, 1.9]}, "TTFT 1.9, not 100.0"),
        ({"tpot_p50_ms": 19.7}, "TPOT 19.7, not 10.0"),
        ({"tpot_p50_ms": None}, "TPOT none, not 10.0"),
        ({"gaps_ms": [[40.0], [40.0]]}, "ITL 40.0, not 10.0"),
        ({"gaps_ms": [[10.0, 10.0, 0.0], [10.0, 10.0]]}, "5 gaps, not 4"),
        ({"tokens": 7}, "7 tokens, not 6"),
        ({"completed": 3}, "3 completed, not 2"),
    ],
)
def test_a_wrong_figure_is_reported_with_its_value(wrong: dict[str, object], fault: str) -> None:
    assert faults_of(dataclasses.replace(RIGHT, **wrong), TRUE) == [fault]


SMALL = Spent(cpu_s=1.0, requests=10, tokens=20)


def test_the_cost_of_a_token_is_the_difference_of_two_runs() -> None:
    assert per_token(SMALL, Spent(cpu_s=3.0, requests=10, tokens=120)) == 0.02


def test_the_cost_of_a_request_excludes_the_further_tokens_of_the_smaller_run() -> None:
    # The smaller run has ten further tokens of 0.02 s each; the larger run has none.
    large = Spent(cpu_s=10.8, requests=110, tokens=110)
    assert per_request(SMALL, large, per_token_s=0.02) == pytest.approx(0.1)


def test_a_poisson_schedule_lies_in_the_bands_and_other_schedules_do_not() -> None:
    bands = poisson_bands(count=1200, rate_per_s=40.0)

    def shape(arrivals: Arrivals) -> Shape:
        drawn = shape_of(draw_arrivals(arrivals, count=1200, seed=1))
        assert drawn is not None
        return drawn

    assert bands.hold(shape(Arrivals(process="poisson", rate_per_s=40.0)))
    assert not bands.hold(shape(Arrivals(process="gamma", rate_per_s=40.0, cv=1.3)))
    assert not bands.hold(shape(Arrivals(process="poisson", rate_per_s=50.0)))
    assert bands.cv[0] < 1 < bands.cv[1]


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    installed: str | None

    def version(self) -> str | None:
        return self.installed


def rows_of(report: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in report.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines}


def test_ratios_are_medians_of_the_rounds_in_which_both_took_part() -> None:
    findings = Findings()
    findings.rounds[OURS.name] = [Round(cpu_s_per_100k_tokens=1.0), Round(cpu_s_per_100k_tokens=9.0)]
    findings.rounds["other"] = [Round(cpu_s_per_100k_tokens=2.0)]
    rows = rows_of(write_report([OURS, Peer("other", "1.0")], findings, command=""))
    assert rows["rounds"] == ["2", "1"]
    [ratios] = [cells for title, cells in rows.items() if title.startswith(f"{PER_TOKEN}: ")]
    assert ratios == ["1.00 (1.00 to 1.00)", "0.50"]


def test_a_cost_smaller_than_the_variation_of_the_start_up_is_not_reported() -> None:
    rounds = [Round(cpu_s_per_100k_tokens=-5.0, cpu_s_per_1k_requests=0.0)]
    rows = rows_of(write_report([OURS], Findings(rounds={OURS.name: rounds}), command=""))
    assert (rows[PER_TOKEN], rows[PER_REQUEST]) == (["–"], ["–"])


def test_the_report_distinguishes_clients_not_installed_from_clients_not_run() -> None:
    findings = Findings(faults={("plain", OURS.name): []})
    peers = [Peer("absent", None), Peer("skipped", "1.0")]
    rows = rows_of(write_report([OURS, *peers], findings, command=""))
    assert rows["absent"] == ["not installed"]
    assert rows["skipped"] == ["1.0, not run"]
    assert rows["plain"] == ["right"]


def test_arrivals_are_reported_with_their_bands() -> None:
    good, wrong = (Shape(rate_per_s=rate, cv=1.0, dispersion=1.0) for rate in (40.0, 20.0))
    rounds = [Round(arrivals={"Poisson, 40/s": good}), Round(arrivals={"Poisson, 40/s": wrong})]
    report = write_report([OURS], Findings(rounds={OURS.name: rounds}), command="")
    [band, ours] = [line.split(" | ")[1:] for line in report.splitlines() if line.startswith("| Poisson")]
    assert band[0] == "its bands"
    assert ours[:3] == [OURS.name, "2", "30.00 (20.00 to 40.00)"]
    assert ours[-1] == "1 |"


def test_our_client_is_started_with_the_seed_and_the_number_of_processes(tmp_path: Path) -> None:
    argv = OURS.argv("http://127.0.0.1:1", ClientLoad(requests=1, streams=1, tokens=1, seed=3, processes=2), tmp_path)
    assert argv is not None
    command = " ".join(argv)
    assert "--seed 3" in command
    assert "--processes 2" in command


def test_failed_requests_are_no_part_of_the_truth() -> None:
    assert truth_of([record(status=503)]).requests == []
