"""Refusals of real servers, and how they were recorded.

`recorded.jsonl` has one answer a line: `source` is `recorded` for what the program `record` got of a server that ran
(vLLM, SGLang and transformers serve on CPU, llama.cpp through xllamacpp, each with the tiny model; an image to a
text model of SGLang with a random Llama); else it says where the answer stands: OpenAI's documentation, public
reports. `rule`, `cause` (where others pass) and `alone` (where none does) are what a person says of it.

SGLang's release is built for CUDA. It starts on a CPU beside a stand-in for `libcuda.so.1` whose `cu…` functions all
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
    """Read all of them."""
    lines = Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
    return [Refusal(**json.loads(line)) for line in lines]


def refusal(server: str, case: str) -> Refusal:
    """Return the one of a server and a case."""
    return next(found for found in refusals() if (found.server, found.case) == (server, case))
