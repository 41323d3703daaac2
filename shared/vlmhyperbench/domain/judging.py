"""An LLM judge: a pinned target that is asked about the answers of a run, and the numbering of its verdicts. Pure.

A judge's requests are an ordinary closed loop over samples that are built from the run's answers: one per answer, order
of the two shown texts, and repeat.
"""

from __future__ import annotations

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

CLASS_PATH: Final = "vlmhyperbench.scoring.judge:Judge"
METRIC: Final = "metric"
"""Parameter of a judge's jobs and of their phase: `name@profile` of the metric."""

Order: TypeAlias = Literal["reference_first", "answer_first"]
ORDERS: Final[tuple[Order, ...]] = ("reference_first", "answer_first")

Worth: TypeAlias = Annotated[float, Field(ge=0, le=1)] | Literal["first", "second"]
"""Value of a verdict for the answer: a number, or 1 if the answer was shown at the preferred position and else 0."""


class Judging(Spec):
    """The parameters of a judge, pinned."""

    target: Annotated[ModelTarget | EndpointTarget, Field(discriminator="kind")]
    prompt: AnyPrompt
    """Its templates see `question`, and `metadata` of the sample with the additional keys `first`, `second`,
    `reference`, `answer` and `order`."""
    decoding: Decoding = Decoding(max_tokens=64)
    """`n` is the number of verdicts per answer and order."""
    labels: Annotated[dict[str, Worth], Field(min_length=1)]
    """Verdict, as the extractor parses it and in lower case → its worth; any other text is not a verdict."""
    extractor: ExtractorSpec = ExtractorSpec()
    """Parses the verdict from the judge's text."""
    swap: bool = True
    """Ask in both orders; the value of an answer is the mean of both, and is missing unless both can be parsed."""
    images: bool = False
    """Show the judge the sample's images."""
    in_flight: Annotated[int, Field(ge=1, le=4096)] = 4
    prices: Prices | None = None
    """Prices of its target."""
    unpriced: str | None = None
    """Why its target has no prices."""
    title: Name

    @field_validator("labels")
    @classmethod
    def _labels_differ(cls, labels: dict[str, Worth]) -> dict[str, Worth]:
        read = [plain(label) for label in labels]
        if "" in read or len(set(read)) < len(read):
            message = "labels must differ in more than case and punctuation"
            raise Refused(message, cure="Give each verdict a different word.")
        return labels

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders in which each answer is shown."""
        return ORDERS if self.swap else ORDERS[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRequest:
    """The verdict that a request of a judge asks for."""

    answer: int
    """Ordinal of the answer in its phase."""
    order: Order
    repeat: int


def plain(text: str) -> str:
    """Return a verdict in the form in which verdicts are compared: lower case, without surrounding punctuation."""
    return text.strip(" \t\r\n.,;:!\"'`*").casefold()


def is_judge(metric: MetricSpec) -> bool:
    """Return whether a metric's values come from a judge."""
    return metric.class_path == CLASS_PATH


def judging_of(metric: MetricSpec) -> Judging:
    """Return a judge's parameters, validated."""
    return Judging.model_validate(metric.params)


def judge_of(spec: RunSpec, label: str) -> MetricSpec:
    """Return the judge with this label, which jobs and phases name.

    Raises:
        LookupError: the run has no such judge.
    """
    judge = next((metric for metric in spec.metrics if is_judge(metric) and metric.label == label), None)
    if judge is None:
        raise LookupError(f"The run has no judge {label}.")
    return judge


def verdicts(judging: Judging, answers: int) -> int:
    """Return the number of requests that a judge needs for this number of answers."""
    return answers * len(judging.orders) * judging.decoding.n


def verdict_request(judging: Judging, ordinal: int, answers: int) -> VerdictRequest:
    """Return what an ordinal asks for: ordinal = repeat · orders · answers + order · answers + answer."""
    rest, answer = divmod(ordinal, answers)
    repeat, order = divmod(rest, len(judging.orders))
    return VerdictRequest(answer=answer, order=judging.orders[order], repeat=repeat)


def judging_spec(spec: RunSpec, judging: Judging) -> RunSpec:
    """Return the spec by which a judge is asked: an ordinary run on samples of its own."""
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
