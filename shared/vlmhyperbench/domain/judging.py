"""An LLM judge: a pinned target that is asked about another target's answers, and how its verdicts are laid out. Pure.

A judge's requests are an ordinary closed loop over samples that are made of the run's answers: one per answer and
order in which the two texts are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, field_validator

from vlmhyperbench.domain.base import Name, Refused, Spec
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import (
    AnyPrompt,
    Decoding,
    EndpointTarget,
    ExtractorSpec,
    MetricSpec,
    ModelTarget,
    RunSpec,
)
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.types import JsonValue

CLASS_PATH: Final = "vlmhyperbench.scoring.judge:Judge"
METRIC: Final = "metric"
"""Param of a judge's jobs and of their phase: `name@profile` of the metric."""

Order: TypeAlias = Literal["reference_first", "answer_first"]
ORDERS: Final[tuple[Order, ...]] = ("reference_first", "answer_first")

Worth: TypeAlias = Annotated[float, Field(ge=0, le=1)] | Literal["first", "second"]
"""What a verdict is worth to the answer: a number, or everything where it prefers the place in which it was shown."""


class Judging(Spec):
    """The params of a judge, pinned."""

    target: Annotated[ModelTarget | EndpointTarget, Field(discriminator="kind")]
    prompt: AnyPrompt
    """Templates see `question`, and in `metadata` those of the sample with `first`, `second`, `reference`,
    `answer` and `order`."""
    decoding: Decoding = Decoding(max_tokens=64)
    """`n` is how often each verdict is asked for."""
    labels: Annotated[dict[str, Worth], Field(min_length=1)]
    """Verdict, as the extractor reads it and in small letters, to its worth; another text is no verdict."""
    extractor: ExtractorSpec = ExtractorSpec()
    """What reads the verdict out of what the judge writes."""
    swap: bool = True
    """Ask in both orders; the answer is worth the mean of both, and nothing unless both can be read."""
    images: bool = False
    """Show the judge the sample's images."""
    in_flight: Annotated[int, Field(ge=1, le=4096)] = 4
    prices: Prices | None = None
    """Of its target."""
    unpriced: str | None = None
    """Why there are no prices."""
    title: Name

    @field_validator("labels")
    @classmethod
    def _labels_differ(cls, labels: dict[str, Worth]) -> dict[str, Worth]:
        read = [plain(label) for label in labels]
        if "" in read or len(set(read)) < len(read):
            message = "labels are words that differ in more than case and punctuation"
            raise Refused(message, cure="Name every verdict by a word of its own.")
        return labels

    @property
    def orders(self) -> tuple[Order, ...]:
        """In which orders each answer is shown."""
        return ORDERS if self.swap else ORDERS[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which verdict a request of a judge asks for."""

    answer: int
    """Ordinal of the answer in the phase that is judged."""
    order: Order
    repeat: int


def plain(text: str) -> str:
    """Return a verdict as it is compared: in small letters, without punctuation around it."""
    return text.strip(" \t\r\n.,;:!\"'`*").casefold()


def is_judge(metric: MetricSpec) -> bool:
    """Say whether a metric's values come from a judge."""
    return metric.class_path == CLASS_PATH


def judging_of(metric: MetricSpec) -> Judging:
    """Return a judge's params as what they are."""
    return Judging.model_validate(metric.params)


def judge_of(spec: RunSpec, label: str) -> MetricSpec:
    """Return the judge that a job or a phase names.

    Raises:
        LookupError: the run has no such metric.
    """
    found = next((metric for metric in spec.metrics if is_judge(metric) and metric.label == label), None)
    if found is None:
        raise LookupError(f"The run has no judge {label}.")
    return found


def asked_spec(spec: RunSpec, kind: StepKind, params: Mapping[str, JsonValue]) -> RunSpec:
    """Return the spec by which the requests of a step are made; `params` are those of its jobs.

    Raises:
        LookupError: the run has no such judge.
    """
    if STEPS[kind].asks != "metric":
        return spec
    return judging_spec(spec, judging_of(judge_of(spec, str(params[METRIC]))))


def verdicts(judging: Judging, answers: int) -> int:
    """Count the requests of a judge of so many answers."""
    return answers * len(judging.orders) * judging.decoding.n


def place_of(judging: Judging, ordinal: int, answers: int) -> Place:
    """Say which verdict an ordinal asks for: repeat · orders · answers + order · answers + answer."""
    rest, answer = divmod(ordinal, answers)
    repeat, order = divmod(rest, len(judging.orders))
    return Place(answer=answer, order=judging.orders[order], repeat=repeat)


def judging_spec(spec: RunSpec, judging: Judging) -> RunSpec:
    """Return the spec by which a judge is asked: it is a run like any other, on samples of its own."""
    return spec.model_copy(
        update={
            "target": judging.target,
            "prompt": judging.prompt,
            "decoding": judging.decoding,
            "scenario": ScenarioSpec(name="judge", in_flight=judging.in_flight, warmup_requests=0),
            "response_format": None,
            "stop": None,
            "prices": judging.prices,
            "unpriced": judging.unpriced,
            "reuse": "nothing" if spec.reuse == "nothing" else "cache",
        }
    )
