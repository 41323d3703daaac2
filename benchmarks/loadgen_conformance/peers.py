"""Five more load generators: how each is started, and how its output is read.

If a peer reports a mean or median instead of gaps, that is used as its ITL. Definitions differ between peers: the
figures that a reader of a report takes for TTFT, ITL and TPOT are compared with the truth.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.loadgen_conformance.clients import (
    ONE_TOKEN_REQUESTS,
    PEERS,
    PROMPT_TOKENS,
    TOKENIZER,
    Client,
    ClientLoad,
    Reported,
    version_in,
)

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
NO_STATUS_BUT_0 = frozenset({0})

_MOCK_TOKENS = 32
"""Maximum length of inference-perf's answers: without a dataset it requests at most 30 tokens of a chat endpoint."""


@dataclass(frozen=True, slots=True)
class Aiperf:
    """NVIDIA's `aiperf profile`."""

    name: str = "aiperf"
    env: Mapping[str, str] = field(default_factory=lambda: {"DO_NOT_TRACK": "1"})
    statuses: frozenset[int] = NO_STATUS_BUT_0
    one_token_requests: int = ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "aiperf", "aiperf")

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        prompts = _write_lines(out / "in.jsonl", [json.dumps({"text": text}) for text in _prompts(load)])
        argv = [str(PEERS / "aiperf" / "bin" / "aiperf"), "profile", "--model", "simulated", "--url", url]
        argv += ["--endpoint-type", "chat", "--streaming", "--tokenizer", str(TOKENIZER), "--ui", "none"]
        argv += ["--input-file", str(prompts), "--custom-dataset-type", "single_turn", "--export-level", "raw"]
        argv += ["--extra-inputs", f"max_completion_tokens:{load.tokens}", "--use-server-token-count"]
        argv += ["--request-count", str(load.requests), "--output-artifact-dir", str(out / "aiperf")]
        if load.rate_per_s is None:
            return [*argv, "--concurrency", str(load.streams)]
        return [*argv, "--request-rate", f"{load.rate_per_s:g}", "--arrival-pattern", load.arrivals]

    def read(self, out: Path) -> Reported:
        folder = out / "aiperf"
        whole = json.loads((folder / "profile_export_aiperf.json").read_text())
        texts = {}
        for raw in _lines(folder / "profile_export_raw.jsonl"):
            packets = [packet["value"] for response in raw.get("responses") or () for packet in response["packets"]]
            texts[raw["metadata"]["x_request_id"]] = _text_of_chunks(packets)
        rows = [row for row in _lines(folder / "profile_export.jsonl") if not row.get("error")]
        measured = [{name: metric["value"] for name, metric in row["metrics"].items()} for row in rows]
        return Reported(
            completed=len(rows),
            tokens=sum(int(metrics.get("output_sequence_length", 0)) for metrics in measured),
            ttft_ms=[metrics.get("time_to_first_token", float("nan")) for metrics in measured],
            gaps_ms=[metrics.get("inter_chunk_latency", []) for metrics in measured],
            itl_p50_ms=whole.get("inter_token_latency", {}).get("p50"),
            tpot_p50_ms=whole.get("inter_token_latency", {}).get("p50"),
            texts=[texts.get(row["metadata"]["x_request_id"], "") for row in rows],
            requests_per_s=whole["request_throughput"]["avg"],
            tokens_per_s=whole["output_token_throughput"]["avg"],
        )


@dataclass(frozen=True, slots=True)
class Guidellm:
    """`guidellm run`."""

    name: str = "guidellm"
    env: Mapping[str, str] = field(default_factory=lambda: OFFLINE)
    statuses: frozenset[int] = NO_STATUS_BUT_0
    one_token_requests: int = ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "guidellm", "guidellm")

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        lines = [json.dumps({"prompt": text, "output_tokens_count": load.tokens}) for text in _prompts(load)]
        prompts = _write_lines(out / "in.jsonl", lines)
        profile = f"kind=concurrent,streams={load.streams}"
        if load.rate_per_s is not None:
            profile = f"kind={load.arrivals},rate={load.rate_per_s:g}"
        argv = [str(PEERS / "guidellm" / "bin" / "guidellm"), "run", "--disable-console"]
        argv += ["--backend", f"kind=openai_http,target={url},model=simulated", "--profile", profile]
        argv += ["--constraint", f"kind=max_requests,count={load.requests}"]
        argv += ["--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}", "--data", f"kind=json_file,path={prompts}"]
        return [*argv, "--output", f"kind=json,path={out / 'guidellm.json'}"]

    def read(self, out: Path) -> Reported:
        benchmark = json.loads((out / "guidellm.json").read_text())["benchmarks"][0]
        rows, metrics = benchmark["requests"]["successful"], benchmark["metrics"]
        return Reported(
            completed=len(rows),
            tokens=sum(row["output_tokens"] or 0 for row in rows),
            ttft_ms=[row["time_to_first_token_ms"] for row in rows],
            gaps_ms=[[] for _ in rows],
            itl_p50_ms=metrics["inter_token_latency_ms"]["successful"]["median"],
            tpot_p50_ms=metrics["time_per_output_token_ms"]["successful"]["median"],
            texts=[row["output"] or "" for row in rows],
            requests_per_s=metrics["requests_per_second"]["successful"]["mean"],
            tokens_per_s=metrics["output_tokens_per_second"]["successful"]["mean"],
        )


@dataclass(frozen=True, slots=True)
class Evalscope:
    """`evalscope perf`."""

    name: str = "evalscope perf"
    env: Mapping[str, str] = field(default_factory=lambda: OFFLINE)
    statuses: frozenset[int] = NO_STATUS_BUT_0
    one_token_requests: int = ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "evalscope", "evalscope")

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        if load.rate_per_s is not None and load.arrivals == "constant":
            return None
        prompts = _write_lines(out / "in.txt", _prompts(load))
        argv = [str(PEERS / "evalscope" / "bin" / "evalscope"), "perf", "--model", "simulated", "--api", "openai"]
        argv += ["--url", f"{url}/v1/chat/completions", "--dataset", "line_by_line", "--dataset-path", str(prompts)]
        argv += ["--min-prompt-length", "0", "--max-tokens", str(load.tokens), "--stream", "--no-test-connection"]
        argv += ["-n", str(load.requests), "--outputs-dir", str(out / "evalscope"), "--no-timestamp"]
        argv += ["--data-source", "local"]
        if load.rate_per_s is None:
            return [*argv, "--parallel", str(load.streams)]
        return [*argv, "--open-loop", "--rate", f"{load.rate_per_s:g}"]

    def read(self, out: Path) -> Reported:
        [database] = (out / "evalscope").rglob("benchmark_data.db")
        summary = json.loads(next((out / "evalscope").rglob("benchmark_summary.json")).read_text())
        query = (
            "SELECT first_chunk_latency, inter_token_latencies, time_per_output_token, completion_tokens, "
            "response_messages FROM result WHERE success"
        )
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute(query).fetchall()
        return Reported(
            completed=len(rows),
            tokens=sum(row[3] or 0 for row in rows),
            ttft_ms=[row[0] * 1e3 for row in rows],
            gaps_ms=[[gap * 1e3 for gap in json.loads(row[1] or "[]")] for row in rows],
            tpot_p50_ms=_median([row[2] * 1e3 for row in rows if row[2]]),
            texts=[_text_of_documents(_unpickle(row[4])) for row in rows],
            requests_per_s=summary["Req Throughput (req/s)"],
            tokens_per_s=summary["Output Throughput (tok/s)"],
        )


@dataclass(frozen=True, slots=True)
class InferencePerf:
    """`inference-perf` of the Kubernetes serving group."""

    name: str = "inference-perf"
    env: Mapping[str, str] = field(default_factory=lambda: OFFLINE)
    statuses: frozenset[int] = NO_STATUS_BUT_0
    one_token_requests: int = ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "inference-perf", "inference_perf")

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        if load.tokens > _MOCK_TOKENS:
            return None
        stage: dict[str, float] = {"num_requests": load.requests, "concurrency_level": load.streams}
        kind = "concurrent"
        if load.rate_per_s is not None:
            kind = load.arrivals
            stage = {"rate": load.rate_per_s, "duration": round(load.requests / load.rate_per_s)}
        config = {
            "api": {"type": "chat", "streaming": True},
            "data": {"type": "mock"},
            "load": {"type": kind, "stages": [stage], "num_workers": 1, "worker_max_concurrency": load.streams},
            "server": {"type": "vllm", "model_name": "simulated", "base_url": url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": str(TOKENIZER)},
            "report": {"request_lifecycle": {"summary": True, "per_request": True}},
            "storage": {"local_storage": {"path": str(out / "inference-perf")}},
        }
        # JSON is YAML too.
        _write_lines(out / "config.yml", [json.dumps(config)])
        return [str(PEERS / "inference-perf" / "bin" / "inference-perf"), "-c", str(out / "config.yml")]

    def read(self, out: Path) -> Reported:
        folder = out / "inference-perf"
        whole = json.loads((folder / "summary_lifecycle_metrics.json").read_text())["successes"]
        rows = json.loads((folder / "per_request_lifecycle_metrics.json").read_text())
        rows = [row for row in rows if not row["error"]]
        responses = [row["info"]["response_metrics"] for row in rows]
        token_times = [response["output_token_times"] for response in responses]
        return Reported(
            completed=len(rows),
            tokens=sum(response["output_tokens"] for response in responses),
            # If it cannot parse a stream, its answers have no tokens.
            ttft_ms=[
                (times[0] - row["start_time"]) * 1e3 for row, times in zip(rows, token_times, strict=True) if times
            ],
            gaps_ms=[[(after - before) * 1e3 for before, after in pairwise(times)] for times in token_times],
            tpot_p50_ms=_in_ms(whole["latency"].get("time_per_output_token")),
            texts=[_text_of_chunks(response["response_chunks"]) for response in responses],
            requests_per_s=whole["throughput"]["requests_per_sec"],
            tokens_per_s=whole["throughput"]["output_tokens_per_sec"],
        )


@dataclass(frozen=True, slots=True)
class MlperfEndpoints:
    """MLPerf's `inference-endpoint`."""

    name: str = "MLPerf Endpoints"
    env: Mapping[str, str] = field(default_factory=lambda: OFFLINE)
    statuses: frozenset[int] = NO_STATUS_BUT_0
    one_token_requests: int = ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "mlperf-endpoints", "inference_endpoint")

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        if load.rate_per_s is not None and load.arrivals == "constant":
            return None
        prompts = _write_lines(out / "in.jsonl", [json.dumps({"prompt": text}) for text in _prompts(load)])
        program = PEERS / "mlperf-endpoints" / "bin" / "inference-endpoint"
        argv = [str(program), "benchmark", "online", "--model", "simulated", "--endpoints", url]
        argv += ["--dataset", str(prompts), "--num-samples", str(load.requests), "--duration", "0"]
        argv += ["--max-output-tokens", str(load.tokens), "--streaming", "on", "--tokenizer", str(TOKENIZER)]
        argv += ["--report-dir", str(out / "mlperf"), "--service-ready-timeout", "300"]
        # Its defaults for workers and cores are for machines with many cores.
        argv += ["--client.worker-initialization-timeout", "300", "--workers", "1", "--no-cpu-affinity"]
        if load.rate_per_s is None:
            return [*argv, "--load-pattern", "concurrency", "--concurrency", str(load.streams)]
        return [*argv, "--load-pattern", "poisson", "--target-qps", f"{load.rate_per_s:g}"]

    def read(self, out: Path) -> Reported:
        folder = out / "mlperf"
        whole = json.loads((folder / "performance" / "result_summary.json").read_text())
        events: dict[str, dict[str, Any]] = defaultdict(dict)
        for event in _lines(folder / "events.jsonl"):
            events[event["sample_uuid"]][event["event_type"]] = event
        wanted = {"sample.issued", "sample.recv_first", "sample.complete"}
        good = [sample for sample in events.values() if wanted <= sample.keys()]
        median = (whole["tpot"] or {}).get("median")
        return Reported(
            completed=whole["n_samples_completed"] - whole["n_samples_failed"],
            tokens=round(whole["output_sequence_lengths"]["total"]),
            ttft_ms=[
                (sample["sample.recv_first"]["timestamp_ns"] - sample["sample.issued"]["timestamp_ns"]) / 1e6
                for sample in good
            ],
            gaps_ms=[[] for _ in good],
            tpot_p50_ms=None if median is None else median / 1e6,
            texts=[_joined(sample["sample.complete"]["data"][1]) for sample in good],
            requests_per_s=whole["qps"],
            tokens_per_s=whole["tps"],
        )


MORE_CLIENTS: Sequence[Client] = (Aiperf(), Guidellm(), Evalscope(), InferencePerf(), MlperfEndpoints())


def _prompts(load: ClientLoad) -> list[str]:
    """Return a different prompt for each request, of words of the tokenizer."""
    rest = " ".join(f"w{number}" for number in range(PROMPT_TOKENS - 2))
    return [f"w{number // 1000} w{number % 1000} {rest}" for number in range(load.requests)]


def _write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def _text_of_chunks(chunks: Sequence[str]) -> str:
    return _text_of_documents([json.loads(chunk) for chunk in chunks if chunk.startswith("{")])


def _text_of_documents(documents: object) -> str:
    """Join the content of streamed documents."""
    if not isinstance(documents, list):
        return ""
    choices = [choice for document in documents for choice in document.get("choices") or ()]
    return "".join((choice.get("delta") or {}).get("content") or "" for choice in choices)


def _joined(text: object) -> str:
    return "".join(part for part in text if part) if isinstance(text, list) else str(text or "")


class _PlainData(pickle.Unpickler):
    """Reads lists, mappings, texts and numbers, and rejects everything else."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise ValueError(f"The file names {module_name}.{global_name}.")


def _unpickle(text: str) -> object:
    return _PlainData(io.BytesIO(base64.b64decode(text))).load()


def _in_ms(summary: Mapping[str, float] | None) -> float | None:
    return None if summary is None else summary["median"] * 1e3


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
