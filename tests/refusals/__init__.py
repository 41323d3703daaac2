"""Refusals of real servers, and how they were recorded.

`recorded.jsonl` has one answer per line. `source` is `recorded` for an answer that `tests.refusals.record` received
from a running server: vLLM, SGLang and transformers serve on CPU, and llama.cpp through xllamacpp, each with the tiny
model; for an image sent to a text model, SGLang with a random Llama. Other answers name where they are published:
OpenAI's documentation or public reports. A person decided `rule`, `cause` (the cause if other requests succeed) and
`alone` (the cause if no request succeeds).

SGLang's release is built for CUDA. It starts on a CPU with a stand-in for `libcuda.so.1` whose `cu…` functions all
return 100 (no device), with `SGLANG_USE_CPU_ENGINE=1` and `--device cpu --attention-backend torch_native
--disable-radix-cache --disable-overlap-schedule --max-total-tokens 4096 --model-impl transformers --enable-multimodal`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One answer and what it means."""

    server: str
    version: str
    source: str
    case: str
    http_status: int
    body: str
    rule: str
    cause: str
    alone: str


def refusals() -> list[Refusal]:
    """Read all recorded refusals."""
    lines = Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
    return [Refusal(**json.loads(line)) for line in lines]


def refusal(server: str, case: str) -> Refusal:
    """Return the refusal of a server in a case."""
    return next(refused for refused in refusals() if (refused.server, refused.case) == (server, case))
