"""Let memory run out at points of a batch, and compare the answers that are left: `memory.py FOLDER PLACE:CALL …`.

It runs in the engine's environment. Errors of torch's allocator are raised where the engine allocates: in the layers of
a forward pass, and where the buffers of keys and values grow. For each point of failure it prints a JSON object: how
many answers were refused, and how many of the others are those of a prompt asked alone.
"""

from __future__ import annotations

import importlib.util
import json
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

SHIM = Path(__file__).parents[2] / "shared/plugins/transformers/vlmhyperbench_transformers/shim/__main__.py"
PROMPTS = ("one", "a longer prompt of several words", "two", "and one that is longer still, by some more words", "x")
MAX_TOKENS = 300
"""More than the spare columns of a new buffer, so that it has to grow while answers are decoded."""


def main(folder: str, *points: str) -> None:
    """Print what each point of failure leaves."""
    spec = importlib.util.spec_from_file_location("shim_main", SHIM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.find_package()
    from vlmhyperbench_transformers.shim.loading import load
    from vlmhyperbench_transformers.shim.options import Options

    torch.set_num_threads(1)
    loaded = load(
        Options(
            host="127.0.0.1",
            port=0,
            name="m",
            folder=Path(folder),
            dtype="float32",
            device="cpu",
            device_map="none",
            attention="sdpa",
            compile="off",
            sampling_defaults="engine",
            trust_remote_code=False,
            max_context=512,
            max_batch=len(PROMPTS),
            max_waiting=8,
            threads=1,
        )
    )
    expected = [_answers(loaded, [prompt])[0] for prompt in PROMPTS]
    for point in points:
        place, _, call = point.partition(":")
        layers = loaded.model.model.layers
        failing = {"layer": partial(_failing_layer, layers[len(layers) // 2]), "growth": _failing_growth}[place]
        with failing(int(call)):
            answers = _answers(loaded, PROMPTS)
        kept = [got == want for got, want in zip(answers, expected, strict=True) if got != "oom"]
        print(json.dumps({"refused": len(answers) - len(kept), "right": kept.count(True)}), flush=True)


def _answers(loaded: Any, prompts: Any) -> list[str]:
    """Return the text of each prompt's answer, or the code of its refusal, asked at the same time."""
    from vlmhyperbench_transformers.shim.answers import Piece
    from vlmhyperbench_transformers.shim.asking import Asked
    from vlmhyperbench_transformers.shim.engine import Engine, Job
    from vlmhyperbench_transformers.shim.prompts import prepare
    from vlmhyperbench_transformers.shim.refusal import Refusal

    events: queue.Queue[Any] = queue.Queue()
    engine = Engine(loaded, len(PROMPTS), events.put)
    jobs = []
    for prompt in prompts:
        messages = [{"role": "user", "content": prompt}]
        asked = Asked(messages=messages, max_tokens=MAX_TOKENS, ignore_eos=True, sampling={"temperature": 0.0})
        inputs = prepare(loaded, messages, {})
        tokens = inputs["input_ids"][0].tolist()
        jobs.append(Job(asked=asked, inputs=inputs, prompt=tokens, max_tokens=MAX_TOKENS, constraint=None))
    for job in jobs:
        engine.submit(job)
    engine.start()
    texts, ended = dict.fromkeys(jobs, ""), set()
    while len(ended) < len(jobs):
        for job, event in events.get(timeout=120):
            if isinstance(event, Piece):
                texts[job] += event.text
                continue
            if isinstance(event, Refusal):
                texts[job] = event.code
            ended.add(job)
    return list(texts.values())


@contextmanager
def _failing_layer(layer: Any, call: int) -> Iterator[None]:
    """Let the n-th pass of a layer run out of memory, once."""
    calls = 0

    def run_out(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    hook = layer.register_forward_pre_hook(run_out)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _failing_growth(call: int) -> Iterator[None]:
    """Let the n-th allocation of a buffer of keys or values run out of memory, once."""
    calls, original = 0, torch.Tensor.new_zeros

    def run_out(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == call:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return original(tensor, *args, **kwargs)

    torch.Tensor.new_zeros = run_out
    try:
        yield
    finally:
        torch.Tensor.new_zeros = original


if __name__ == "__main__":
    main(*sys.argv[1:])
