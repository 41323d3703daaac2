"""The output files of other load generators are read correctly."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sqlite3
from pathlib import Path

import pytest

from benchmarks.loadgen_conformance.clients import CLIENTS, Client, ClientLoad, Reported
from benchmarks.loadgen_conformance.peers import (
    MORE_CLIENTS,
    Aiperf,
    Evalscope,
    Guidellm,
    InferencePerf,
    MlperfEndpoints,
)

CLOSED = ClientLoad(requests=3, streams=2, tokens=32)
OPEN = ClientLoad(requests=3, streams=2, tokens=1, rate_per_s=2.5, arrivals="poisson")
CONSTANT = ClientLoad(requests=3, streams=2, tokens=1, rate_per_s=2.5, arrivals="constant")
DOCUMENTS = [{"choices": [{"delta": {"content": "a "}}]}, {"choices": [{"delta": {"content": "b"}}]}, {"choices": []}]
CHUNKS = [*map(json.dumps, DOCUMENTS), "[DONE]"]

TRUE = Reported(
    completed=1,
    tokens=2,
    ttft_ms=[100.0],
    gaps_ms=[[10.0]],
    tpot_p50_ms=10.0,
    texts=["a b"],
    requests_per_s=4.0,
    tokens_per_s=8.0,
)


def write(path: Path, *documents: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


def assert_reads(client: Client, out: Path, *, has_gaps: bool = True, itl_p50_ms: float | None = None) -> None:
    reported = client.read(out)
    assert reported.ttft_ms == pytest.approx(TRUE.ttft_ms)
    assert [pytest.approx(gaps) for gaps in reported.gaps_ms] == (TRUE.gaps_ms if has_gaps else [[]])
    assert reported.tpot_p50_ms == pytest.approx(TRUE.tpot_p50_ms)
    assert reported.itl_p50_ms == itl_p50_ms
    assert (reported.completed, reported.tokens, reported.texts) == (TRUE.completed, TRUE.tokens, TRUE.texts)
    assert (reported.requests_per_s, reported.tokens_per_s) == (TRUE.requests_per_s, TRUE.tokens_per_s)


def test_aiperf_states_each_request_also_failed_ones(tmp_path: Path) -> None:
    def metric(value: object) -> dict[str, object]:
        return {"value": value, "unit": "ms"}

    metrics = {"time_to_first_token": metric(100.0), "inter_chunk_latency": metric([10.0])}
    metrics["output_sequence_length"] = metric(2)
    good = {"metadata": {"x_request_id": "1"}, "metrics": metrics}
    bad = {"metadata": {"x_request_id": "2"}, "metrics": {}, "error": {"code": 503}}
    write(tmp_path / "aiperf" / "profile_export.jsonl", good, bad)
    packets = [{"packets": [{"name": "data", "value": chunk}]} for chunk in CHUNKS]
    write(tmp_path / "aiperf" / "profile_export_raw.jsonl", {"metadata": {"x_request_id": "1"}, "responses": packets})
    whole = {"inter_token_latency": {"p50": 10.0}, "request_throughput": {"avg": 4.0}}
    write(tmp_path / "aiperf" / "profile_export_aiperf.json", {**whole, "output_token_throughput": {"avg": 8.0}})
    assert_reads(Aiperf(), tmp_path, itl_p50_ms=10.0)


def test_guidellm_states_no_gaps(tmp_path: Path) -> None:
    row = {"output_tokens": 2, "time_to_first_token_ms": 100.0, "output": "a b"}
    metrics = {
        name: {"successful": {"median": 10.0}} for name in ("inter_token_latency_ms", "time_per_output_token_ms")
    }
    metrics["requests_per_second"] = {"successful": {"mean": 4.0}}
    metrics["output_tokens_per_second"] = {"successful": {"mean": 8.0}}
    benchmark = {"requests": {"successful": [row], "errored": [{}]}, "metrics": metrics}
    write(tmp_path / "guidellm.json", {"benchmarks": [benchmark]})
    assert_reads(Guidellm(), tmp_path, has_gaps=False, itl_p50_ms=10.0)


def write_evalscope(out: Path, messages: object) -> None:
    folder = out / "evalscope" / "simulated" / "parallel_2_number_3"
    write(folder / "benchmark_summary.json", {"Req Throughput (req/s)": 4.0, "Output Throughput (tok/s)": 8.0})
    pickled = base64.b64encode(pickle.dumps(messages)).decode()
    with sqlite3.connect(folder / "benchmark_data.db") as connection:
        connection.execute(
            "CREATE TABLE result (success INTEGER, first_chunk_latency REAL, inter_token_latencies TEXT, "
            "time_per_output_token REAL, completion_tokens INTEGER, response_messages TEXT)"
        )
        rows = [(1, 0.1, "[0.01]", 0.01, 2, pickled), (0, None, None, None, None, "")]
        connection.executemany("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()


def test_evalscope_writes_each_request_to_a_database(tmp_path: Path) -> None:
    write_evalscope(tmp_path, DOCUMENTS)
    assert_reads(Evalscope(), tmp_path)


def test_pickled_messages_of_evalscope_may_hold_data_only(tmp_path: Path) -> None:
    write_evalscope(tmp_path, os.getcwd)
    with pytest.raises(ValueError, match=r"posix\.getcwd"):
        Evalscope().read(tmp_path)


def test_inference_perf_states_the_instant_of_each_token(tmp_path: Path) -> None:
    metrics = {"output_tokens": 2, "output_token_times": [5.1, 5.11], "response_chunks": CHUNKS}
    good = {"start_time": 5.0, "error": None, "info": {"response_metrics": metrics}}
    bad = {"start_time": 6.0, "error": {"error_type": "503"}, "info": {}}
    folder = tmp_path / "inference-perf"
    folder.mkdir()
    (folder / "per_request_lifecycle_metrics.json").write_text(json.dumps([good, bad]))
    throughput = {"requests_per_sec": 4.0, "output_tokens_per_sec": 8.0}
    latency = {"time_per_output_token": {"median": 0.01}}
    write(folder / "summary_lifecycle_metrics.json", {"successes": {"latency": latency, "throughput": throughput}})
    assert_reads(InferencePerf(), tmp_path)


def test_mlperf_states_events_of_each_sample(tmp_path: Path) -> None:
    def event(kind: str, at_ms: int, data: object = None) -> dict[str, object]:
        return {"event_type": f"sample.{kind}", "timestamp_ns": at_ms * 1_000_000, "sample_uuid": "1", "data": data}

    lost = {"event_type": "sample.issued", "timestamp_ns": 0, "sample_uuid": "2", "data": None}
    complete = event("complete", 120, ["TextModelOutput", ["a ", "b"], None, None])
    write(tmp_path / "mlperf" / "events.jsonl", event("issued", 10), lost, event("recv_first", 110), complete)
    whole = {"n_samples_completed": 2, "n_samples_failed": 1, "tpot": {"median": 1e7}, "qps": 4.0, "tps": 8.0}
    whole["output_sequence_lengths"] = {"total": 2}
    write(tmp_path / "mlperf" / "performance" / "result_summary.json", whole)
    assert_reads(MlperfEndpoints(), tmp_path, has_gaps=False)


@pytest.mark.parametrize("client", MORE_CLIENTS, ids=lambda client: client.name)
def test_every_client_is_started_with_the_same_load(tmp_path: Path, client: Client) -> None:
    for load in (CLOSED, OPEN):
        argv = client.argv("http://127.0.0.1:1", load, tmp_path)
        assert argv is not None
        command = " ".join([*argv, *(path.read_text() for path in tmp_path.iterdir())])
        assert "http://127.0.0.1:1" in command
        assert ("2.5" if load is OPEN else str(load.streams)) in command


def test_a_client_without_constant_arrivals_is_not_started_with_them(tmp_path: Path) -> None:
    without = {
        client.name
        for client in (*CLIENTS, *MORE_CLIENTS)
        if client.argv("http://127.0.0.1:1", CONSTANT, tmp_path) is None
    }
    assert without == {"sglang-bench", "evalscope perf", "MLPerf Endpoints"}
