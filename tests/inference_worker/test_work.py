"""What a job asks: the requests that count, and those that are sent before them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.reports.builders import run_spec
from vlmhyperbench.data.images import ImageInfo
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.scenarios import ArrivalSpec, ScenarioSpec
from vlmhyperbench.domain.selection import SamplingSpec
from vlmhyperbench.domain.specs import FewShotSpec, PromptSpec, RunSpec
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.reading import with_requests
from vlmhyperbench_inference_worker.work import Work

IMAGE = ImageInfo(sha256="0" * 64, media_type="image/png", width=1, height=1, size_bytes=1)
NO_JOB = cast("ClaimedJob", None)
"""Only a strategy in an environment of its own needs the job that asks."""
SAMPLES = [ManifestSample(index=i, key=str(i), question="q", error="gone" if i == 1 else None) for i in range(6)]


@pytest.mark.parametrize(
    ("measured", "count", "first", "then"),
    [
        pytest.param([0, 2, 3], 2, {4, 5}, set(), id="what-is-not-measured"),
        pytest.param([5, 4, 3, 2, 0], 5, set(), {0, 2, 3, 4, 5}, id="else-what-is"),
        pytest.param([0, 2, 3, 4], 5, {5}, {0, 2, 3, 4}, id="both"),
        pytest.param([0, 1, 2, 3, 4, 6], 1, {5}, set(), id="a-second-repeat-is-the-same-sample"),
        pytest.param([0], 9, {2, 3, 4, 5}, {0}, id="never-more-than-there-are"),
    ],
)
def test_uncounted_requests_take_samples_that_are_not_measured_first(
    measured: list[int], count: int, first: set[int], then: set[int]
) -> None:
    work = Work(spec=run_spec(), samples=SAMPLES, missing=measured)
    drawn = work.uncounted[:count]
    assert (set(drawn[: len(first)]), set(drawn[len(first) :])) == (first, then)
    assert len(drawn) == len(set(drawn))


def test_uncounted_requests_are_drawn_from_the_whole_dataset_in_a_reproducible_order() -> None:
    samples = [ManifestSample(index=i, key=str(i), question="q") for i in range(100)]
    first, again = (Work(spec=run_spec(), samples=samples, missing=list(range(100))).uncounted[:20] for _ in range(2))
    assert first == again
    assert min(first) < 25
    assert max(first) >= 75


@given(data=st.data(), size=st.integers(1, 12), repeats=st.integers(1, 3), warmup=st.integers(0, 5))
def test_whatever_is_reused_every_request_that_is_still_sent_was_made(
    data: st.DataObject, size: int, repeats: int, warmup: int
) -> None:
    flags = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=size, max_size=size))
    samples = [
        ManifestSample(
            index=index,
            key=str(index),
            question="q",
            error="gone" if is_unreadable else None,
            images=(IMAGE,) if has_image else (),
        )
        for index, (is_unreadable, has_image) in enumerate(flags)
    ]
    spec = run_spec()
    spec = spec.model_copy(update={"scenario": spec.scenario.model_copy(update={"warmup_requests": warmup})})
    missing = sorted(data.draw(st.sets(st.integers(0, size * repeats - 1))))
    work = asyncio.run(with_requests(NO_JOB, Work(spec=spec, samples=samples, missing=missing)))
    rest = replace(work, missing=[ordinal for ordinal in missing if data.draw(st.booleans())])
    assert {*rest.missing, *rest.uncounted[:warmup], *rest.probes} <= set(work.requests)
    assert [request.ordinal for request in rest.measured] == rest.readable
    assert all(request.ordinal == ordinal for ordinal, request in work.requests.items())


def test_a_job_without_missing_requests_renders_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlmhyperbench_inference_worker.reading.render_prompts", None)
    work = Work(spec=run_spec(), samples=SAMPLES, missing=[])
    assert asyncio.run(with_requests(NO_JOB, work)) is work


def test_the_prompt_of_a_sample_is_rendered_once_for_all_its_repeats() -> None:
    work = asyncio.run(with_requests(NO_JOB, Work(spec=run_spec(), samples=SAMPLES, missing=[4, 10, 16])))
    assert [work.requests[ordinal].repeat for ordinal in (4, 10, 16)] == [0, 1, 2]
    assert work.requests[4].prompt is work.requests[10].prompt is work.requests[16].prompt


def _few_shot(count: int) -> RunSpec:
    spec = run_spec()
    dataset = spec.dataset.model_copy(update={"split": "train", "sampling": SamplingSpec(size=count)})
    prompt = PromptSpec(name="p", version="1", user_prompt="{{ question }}!", few_shot=FewShotSpec(dataset=dataset))
    return spec.model_copy(update={"prompt": prompt})


def test_examples_are_rendered_as_the_questions_and_count_in_the_need_of_context() -> None:
    shown = ManifestSample(index=0, key="e", question="shown", references=("yes",), images=(IMAGE,))
    work = Work(spec=_few_shot(1), samples=SAMPLES, examples=[shown], missing=[0, 2])
    made = asyncio.run(with_requests(NO_JOB, work))
    alone = asyncio.run(with_requests(NO_JOB, replace(work, spec=run_spec(), examples=())))
    assert [message["content"] for message in made.requests[2].request["messages"]][1:] == ["yes", "q!"]
    assert [example.as_json["user_prompt"] for example in made.requests[2].examples] == ["shown!"]
    assert made.tokens is not None
    assert alone.tokens is not None
    assert made.tokens.images == alone.tokens.images + 1
    assert made.tokens.text > alone.tokens.text + len("shown!yes")


def test_an_example_that_asks_what_a_sample_asks_ends_the_job() -> None:
    leaking = ManifestSample(index=0, key="e", question="q", references=("yes",))
    work = Work(spec=_few_shot(1), samples=SAMPLES, examples=[leaking], missing=[0])
    with pytest.raises(InvalidInput) as raised:
        asyncio.run(with_requests(NO_JOB, work))
    assert (raised.value.code, "'e'" in raised.value.message) == ("prompt", True)


def test_a_run_that_lacks_examples_asks_nothing() -> None:
    with pytest.raises(NotFound):
        asyncio.run(with_requests(NO_JOB, Work(spec=_few_shot(1), samples=SAMPLES, missing=[0])))


def test_each_request_has_the_schema_of_its_sample() -> None:
    schemas = [{"type": "object", "required": [name]} for name in ("a", "b")]
    samples = [
        ManifestSample(index=i, key=str(i), question="q", metadata={"json_schema": schema})
        for i, schema in enumerate(schemas)
    ]
    spec = run_spec(response_format={"type": "json_schema"})
    work = asyncio.run(with_requests(NO_JOB, Work(spec=spec, samples=samples, missing=[0, 1])))
    wanted = [work.requests[ordinal].request["response_format"]["json_schema"]["schema"] for ordinal in (0, 1)]
    assert wanted == schemas


def test_a_sample_whose_later_repeat_is_reused_can_be_drawn_for_the_warm_up() -> None:
    samples = [ManifestSample(index=i, key=str(i), question="q") for i in range(20)]
    spec = run_spec()
    spec = spec.model_copy(update={"scenario": spec.scenario.model_copy(update={"warmup_requests": 1})})
    first, *_, last = Work(spec=spec, samples=samples, missing=list(range(20))).uncounted
    work = asyncio.run(with_requests(NO_JOB, Work(spec=spec, samples=samples, missing=[20 + first, 20 + last])))
    rest = replace(work, missing=[20 + last])
    assert rest.uncounted[0] == first
    assert rest.uncounted[0] in work.requests


def test_a_retune_changes_the_streams_of_a_closed_loop_and_of_no_timed_phase() -> None:
    timed = run_spec().model_copy(update={"scenario": ScenarioSpec(name="s", kind="multi_stream", in_flight=3)})
    untimed = Work(spec=run_spec(), samples=SAMPLES, missing=[0], in_flight=12)
    assert (untimed.streams, replace(untimed, in_flight=None).streams) == (12, 4)
    assert replace(untimed, spec=timed).streams == 3


def test_a_trace_bounds_the_length_of_each_answer_and_says_when_it_is_asked() -> None:
    trace = ArrivalSpec(process="trace", rate_per_s=1, times_s=(0.0, 0.5, 2.0), output_tokens=(5, None, 7))
    spec = run_spec(scenario=ScenarioSpec(kind="server", arrivals=trace, warmup_requests=0))
    samples = [ManifestSample(index=i, key=str(i), question="q") for i in range(3)]
    work = asyncio.run(with_requests(NO_JOB, Work(spec=spec, samples=samples, missing=[0, 1, 2])))
    lengths = [work.requests[ordinal].request["max_tokens"] for ordinal in (0, 1, 2)]
    assert lengths == [5, spec.decoding.max_tokens, 7]
    assert work.instants is not None
    assert work.instants.tolist() == [0, 500_000_000, 2_000_000_000]
