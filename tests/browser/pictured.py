"""A stack with something on every page of the dashboard: runs of every kind, loads, questions to a pipeline."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.e2e.test_refusals import endpoint
from tests.refusals import refusal
from tests.refusals.server import ANSWERED
from tests.support.stack import ROOT, Stack, running_stack
from vlmhyperbench.client import Client
from vlmhyperbench.exchange.answers import SCHEMA
from vlmhyperbench.wire.runs import RunRescore
from vlmhyperbench.wire.sessions import SessionCreate

READER, SMALLER = "tiny-doc-vlm", "tiny-doc-vlm-q4"
DOCUMENTS = {"name": "synthetic-documents", "question_types": ["field", "kind", "json"], "limit": 90}
PIPELINE = "readers-vote"
JUDGE = """\
description: Whether an answer means the same as the reference, by a simulated judge.
class_path: vlmhyperbench.scoring.judge:Judge
profile: v1
params:
  target: {model: says-yes}
  prompt: judge-same-answer
"""
SAYS_YES = """\
description: No model. Says yes.
backends: [simulated]
engine_params: {ttft_ms: 0, gap_ms: 0, usage: always, answer: "Yes."}
"""


@contextmanager
def filled() -> Iterator[tuple[Stack, Mapping[str, str]]]:
    """Run a stack; yield it with the address of each page, by name."""
    with tempfile.TemporaryDirectory() as folder:
        registries = Path(folder) / "registries"
        shutil.copytree(ROOT / "registries", registries)
        (registries / "models/says-yes.yaml").write_text(SAYS_YES, encoding="utf-8")
        (registries / "metrics/judged.yaml").write_text(JUDGE, encoding="utf-8")
        base = registries / "pipelines" / f"{PIPELINE}.yaml"
        shutil.copy(base, base.with_name("base.yaml"))
        refused = refusal("vLLM", "unknown model")
        with (
            running_stack(registries) as stack,
            endpoint(lambda _: ANSWERED) as served,
            endpoint(lambda _: refused) as refusing,
        ):
            yield stack, _fill(stack, served.url, refusing.url)


def _fill(stack: Stack, served: str, refusing: str) -> dict[str, str]:
    client = stack.client
    experiment, first, second = _compared(stack)
    judged = client.runs.rescore(first, RunRescore(metrics=("exact_match", "judged"), name="judged again"))
    failed = client.runs.create(run=_simulated({"endpoint": refusing, "model_name": "gone"}), name="an endpoint")
    flaky = client.runs.create(run=_simulated({"model": "simulated-flaky"}), name="flaky endpoint")
    load = {"url": served, "model": "some-model", "rate_per_s": 20, "requests": 200}
    measured = client.loads.start(load)
    points = [client.loads.start({**load, "rate_per_s": rate}) for rate in (5, 10)]
    for run in (judged, failed, flaky, measured, *points):
        stack.wait(run.id)
    client.runs.label(first, add_tags=["baseline", "nightly"], note="16 bits")
    client.runs.label(second, add_tags=["nightly"])
    asked = [_ask(stack, first, question) for question in ("What is the total?", "What kind of document is it?")]
    running = client.runs.create(run=_simulated({"model": "simulated-slow"}, limit=1000), name="watched")
    client.runs.create(run=_simulated({"model": "simulated-slow"}, limit=1000), name="waits its turn")
    stack.wait_done(running.id, 12)
    return _addresses(experiment, first, second, judged.id, failed.id, running.id, measured.id, asked, client)


def _compared(stack: Stack) -> tuple[UUID, UUID, UUID]:
    """Run two models on the same documents; return the experiment and the runs, the baseline first."""
    experiment = stack.client.experiments.create(
        {
            "matrix": {"targets": [{"model": READER}, {"model": SMALLER}], "tasks": ["document-qa"]},
            "defaults": {"dataset": DOCUMENTS},
        },
        name="demo",
    )
    ended = stack.wait_experiment(experiment.id)
    first, second = sorted(ended.runs, key=lambda run: run.target != READER)
    return experiment.id, first.id, second.id


def _simulated(target: Mapping[str, str], limit: int = 60) -> dict[str, Any]:
    return {
        "target": dict(target),
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": limit},
    }


def _ask(stack: Stack, run: UUID, question: str) -> UUID:
    """Ask the pipeline about a page of a run's documents, and return the session."""
    sample = stack.client.runs.samples(run, limit=1).items[0]
    page = stack.client.image(run, str(sample.image))
    header = {"schema": SCHEMA, "format": "question", "tool": None, "model": None, "task": None, "decoding": {}}
    row = {
        "key": "question",
        "question": question,
        "references": [],
        "image_urls": [f"data:image/png;base64,{base64.b64encode(page).decode()}"],
        "text": None,
        "error": "it is asked",
    }
    uploaded = stack.client.upload_answers(f"{json.dumps(header)}\n{json.dumps(row)}\n".encode())
    session = stack.client.sessions.ask(SessionCreate(pipeline=PIPELINE, question=uploaded.sha256))
    return stack.wait(session.id).id


def _addresses(
    experiment: UUID,
    first: UUID,
    second: UUID,
    judged: UUID,
    failed: UUID,
    running: UUID,
    load: UUID,
    asked: list[UUID],
    client: Client,
) -> dict[str, str]:
    broke = client.runs.samples(second, "flip=broke", against=first, limit=1).items
    sample = broke[0].id if broke else client.runs.samples(second, limit=1).items[0].id
    compared = '["' + '","'.join(map(str, asked)) + '"]'
    return {
        "home": "/",
        "runs": f"/runs?chosen={first},{second}",
        "run-live": f"/runs/{running}",
        "workers": "/workers",
        "run": f"/runs/{first}",
        "run-judged": f"/runs/{judged}",
        "run-failed": f"/runs/{failed}",
        "samples": f"/runs/{second}?tab=samples&against={first}",
        "performance": f"/runs/{first}?tab=performance",
        "resources": f"/runs/{first}?tab=resources",
        "logs": f"/runs/{first}?tab=logs",
        "configuration": f"/runs/{first}?tab=configuration",
        "provenance": f"/runs/{first}?tab=provenance",
        "sample": f"/runs/{second}/samples/{sample}?against={first}",
        "new-run": f"/runs/new?model={READER}&task=document-qa",
        "compare": f"/compare?runs={first},{second}",
        "choose": "/compare",
        "experiments": "/experiments",
        "experiment": f"/experiments/{experiment}",
        "leaderboard": "/leaderboard?task=document-qa",
        "explore": '/explore?x=latency_p50_ms&y=metrics.exact_match&bounds=["peak_memory_bytes"]',
        "load": "/load?preset=vlm&rate=4",
        "load-result": f"/load/{load}",
        "pipelines": f"/pipelines?pipeline={PIPELINE}&session={asked[0]}",
        "builder": f"/pipelines?tab=builder&pipeline={PIPELINE}",
        "history": f"/pipelines?tab=history&compare={compared}",
        "models": "/pipelines?tab=models&model=tiny-doc-vlm-0.2-q8",
        "reports": "/reports",
        "registry": "/registry?kind=models",
        "entry": f"/registry/models/{READER}",
        "health": "/health",
        "settings": "/settings",
        "preferences": "/settings?tab=preferences",
    }
