"""One request before the samples: what it asks, what it takes a refusal for, and that nothing of it counts.

The fixtures and helpers are those of `test_keys`.
"""

from __future__ import annotations

import pytest
from sqlalchemy import text

from tests.inference_worker.test_keys import Ask, ask, fleet, judged_by, runtime
from tests.inference_worker.test_keys import run_of as run_with_warm_up
from tests.refusals import Refusal, refusal
from tests.refusals.server import ANSWERED, RefusingServer, refusing
from vlmhyperbench.domain.outcomes import Complete, Failed
from vlmhyperbench.domain.specs import EndpointTarget, MetricSpec, RunSpec
from vlmhyperbench.runtime import Runtime

__all__ = ["ask", "fleet", "runtime"]

pytestmark = pytest.mark.anyio

UNKNOWN_MODEL = refusal("vLLM", "unknown model")
TOO_LONG = refusal("vLLM", "prompt too long")
UNHEARD_OF = refusal("llama.cpp", "no messages")
BUSY = refusal("OpenAI", "overloaded")


def target_of(served: RefusingServer) -> EndpointTarget:
    return EndpointTarget(endpoint=served.url, model_name="m")


def run_of(target: EndpointTarget, *, metrics: tuple[MetricSpec, ...] = (), tries: int = 1) -> RunSpec:
    """A run of one sample, without a warm-up."""
    spec = run_with_warm_up(target, metrics=metrics)
    scenario = spec.scenario.model_copy(update={"warmup_requests": 0})
    limits = spec.limits.model_copy(update={"tries": tries})
    return spec.model_copy(update={"scenario": scenario, "limits": limits, "reuse": "nothing"})


async def facts(runtime: Runtime) -> list[tuple[str | None, str | None]]:
    async with runtime.database.transaction() as session:
        rows = await session.execute(text("SELECT failure, error FROM fact ORDER BY run_id, phase, ordinal"))
        return [(row[0], row[1]) for row in rows]


async def test_a_probe_is_sent_as_the_samples_are_and_has_no_row(ask: Ask, runtime: Runtime) -> None:
    async with refusing() as served:
        [outcome] = await ask(run_of(target_of(served)))
    assert isinstance(outcome, Complete)
    probe, *samples = served.bodies
    assert samples == [probe]  # the run has one sample
    assert len(await facts(runtime)) == 1


async def test_a_configuration_error_ends_the_job_at_once_and_for_good(ask: Ask, runtime: Runtime) -> None:
    async with refusing(lambda _: UNKNOWN_MODEL) as served:
        [outcome] = await ask(run_of(target_of(served)))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent, len(served.bodies)) == ("endpoint_unknown_model", True, 1)
    assert outcome.error is not None
    assert (outcome.error["rule"], outcome.error["http_status"]) == ("unknown_model", 404)
    assert await facts(runtime) == []


async def test_a_judge_is_probed_too_and_a_refused_one_has_no_verdicts(ask: Ask, runtime: Runtime) -> None:
    async with refusing() as served, refusing(lambda _: UNKNOWN_MODEL) as judge:
        outcomes = await ask(run_of(target_of(served), metrics=judged_by(target_of(judge))))
    assert [type(outcome) for outcome in outcomes] == [Complete, Failed]
    assert len(judge.bodies) == 1
    assert await facts(runtime) == [(None, None)]


async def test_an_unknown_refusal_is_a_configuration_error_if_no_probe_passes(ask: Ask) -> None:
    async with refusing(lambda _: UNHEARD_OF) as served:
        [outcome] = await ask(run_of(target_of(served)))
    assert isinstance(outcome, Failed)
    assert outcome.code == "endpoint_refused"


async def test_a_probe_that_is_refused_for_its_prompt_lets_the_samples_be_asked(ask: Ask) -> None:
    async with refusing(lambda number: ANSWERED if number else TOO_LONG) as served:
        [outcome] = await ask(run_of(target_of(served)))
    assert isinstance(outcome, Complete)
    assert len(served.bodies) == 2


async def test_a_probe_of_a_busy_server_decides_nothing(ask: Ask, runtime: Runtime) -> None:
    async with refusing(lambda _: BUSY) as served:
        [outcome] = await ask(run_of(target_of(served)))
    assert isinstance(outcome, Complete)
    [(failure, _)] = await facts(runtime)
    assert failure == "infrastructure"


async def test_rows_have_the_server_s_message_without_control_characters(ask: Ask, runtime: Runtime) -> None:
    odd = Refusal(
        **{**{name: getattr(BUSY, name) for name in BUSY.__slots__}, "body": '{"error": "\\u001b[31m no\\n"}'}
    )
    async with refusing(lambda _: odd) as served:
        await ask(run_of(target_of(served)))
    assert await facts(runtime) == [("infrastructure", "http_503: [31m no")]


async def test_a_target_that_is_still_loaded_is_asked_once_for_the_same_options(ask: Ask) -> None:
    async with refusing() as served:
        asked = []
        for max_tokens in (7, 7, 8):
            served.bodies.clear()
            spec = run_of(target_of(served))
            decoding = spec.decoding.model_copy(update={"max_tokens": max_tokens})
            await ask(spec.model_copy(update={"decoding": decoding}))
            asked.append(len(served.bodies))
    assert asked == [2, 1, 2]
