"""What a job has to ask: the run's spec, its samples, the requests that are missing, and those asked before them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.arrivals import Instants
from vlmhyperbench.domain.failures import NOT_ASKED, UNREADABLE_SAMPLE
from vlmhyperbench.domain.fallbacks import TaskTokens
from vlmhyperbench.domain.pipelines import PipelineTarget
from vlmhyperbench.domain.request_styles import Languages
from vlmhyperbench.domain.schedules import instants_of
from vlmhyperbench.domain.specs import Decoding, RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_inference_worker.conversations import converse
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import Prompt

MAX_PROBES = 3
"""One prompt may be refused for its content; this many different prompts that are refused alike are not."""

TEMPLATE_TOKENS = 128
"""More than the tokens that a chat template adds to a prompt."""
AROUND_IMAGE_TOKENS = 16
"""More than the tokens that mark an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The job at hand, read once at its start."""

    spec: RunSpec
    samples: list[ManifestSample]
    missing: list[int]
    """Ordinals of the job's range that have neither an own nor a reused row, in the order in which they are asked."""
    requests: Mapping[int, PlannedRequest] = field(default_factory=dict)
    """Ordinal → request, of everything that the job may send; made once by `reading.with_requests`."""
    parent_run_id: UUID | None = None
    """The run that this one is a rerun of."""
    step: StepKind = StepKind.GENERATE
    examples: Sequence[ManifestSample] = ()
    """Samples that stand before every question, in their order."""
    prompts: Mapping[int, Prompt] | None = None
    """Ordinal → what is asked, where that is made of other answers; None: the prompt of the spec is rendered."""
    shape: Callable[[Prompt], Prompt] | None = None
    """What a stage of a pipeline adds to a rendered prompt."""
    languages: Languages | None = None
    """What the requests of a stage that translates name."""
    manifest_size: int | None = None
    """Number of samples of the run where `samples` has one for each repeat; None: as many as `samples`."""
    pipeline: PipelineTarget | None = None
    """The pipeline whose model is asked; `spec` is then that of the model."""
    unasked: frozenset[int] = frozenset()
    """Indexes of samples without a request because the answers of which it would be made are missing."""
    in_flight: int | None = None
    """Requests in flight as a person has changed them; None: as the scenario says."""

    @property
    def streams(self) -> int:
        """Requests that are kept in flight, or connections that are opened beforehand."""
        scenario = self.spec.scenario
        return scenario.streams if self.in_flight is None or self.is_timed else self.in_flight

    @property
    def served_name(self) -> str:
        """The model's name in requests."""
        return self.spec.target.served_name

    @property
    def has_parent(self) -> bool:
        """Whether it is a rerun that may reuse rows of its parent."""
        return self.parent_run_id is not None and self.spec.reuse != "nothing"

    @property
    def tokens(self) -> TaskTokens | None:
        """What its longest request needs of a context, at most; None for conversations, which grow.

        A token has at least a byte of the prompt.
        """
        if self.spec.scenario.kind == "interactive" or not self.requests:
            return None
        longest = max(map(_bytes_of, self.requests.values()))
        images = max(len(request.sent_images) for request in self.requests.values())
        turns = 1 + len(self.examples)
        text = longest + turns * TEMPLATE_TOKENS + images * AROUND_IMAGE_TOKENS + self.spec.decoding.max_tokens
        return TaskTokens(text=text, images=images)

    @property
    def takes_cached(self) -> bool:
        """Whether answers of any run may be reused: those of a judge, and those that asking again must repeat.

        A rerun of a pipeline takes all answers of its models, so that answers are combined anew with no model.
        """
        if self.asks == "member" and self.has_parent:
            return True
        return self.spec.reuse == "cache" and (self.spec.decoding.temperature == 0 or self.asks == "metric")

    @property
    def may_reuse(self) -> bool:
        """Whether rows of other runs may stand for requests of this job.

        A run that may stop early reuses none: its reused rows would be of the whole dataset, its own of the first part.
        """
        return not self.is_timed and self.spec.stop is None and (self.has_parent or self.takes_cached)

    @property
    def asks(self) -> str | None:
        """Whose target is asked: that of the run, of a member of its pipeline, or of a metric."""
        return STEPS[self.step].asks

    @property
    def facts_phase(self) -> PhaseKind:
        """Kind of the phase that all shards of the step share."""
        return STEPS[self.step].facts_phase

    @property
    def is_timed(self) -> bool:
        """Whether the scenario restarts as a whole: its phase belongs to the claim that measures it."""
        return self.spec.scenario.is_timed

    def place_of(self, ordinal: int) -> tuple[int, int]:
        """Return the index of the sample in the run's manifest, and the repeat."""
        repeat, sample = divmod(ordinal, self.manifest_size or len(self.samples))
        return sample, repeat

    def sample_of(self, ordinal: int) -> ManifestSample:
        """Return the sample of an ordinal, which is repeat · number of samples + index of the sample."""
        return self.samples[ordinal % len(self.samples)]

    def decoding_of(self, ordinal: int) -> Decoding:
        """Return how the answer of an ordinal is decoded; a trace may bound the length of each."""
        arrivals, decoding = self.spec.scenario.arrivals, self.spec.decoding
        traced = arrivals.output_tokens if arrivals is not None else ()
        tokens = traced[ordinal] if ordinal < len(traced) else None
        return decoding if tokens is None else decoding.model_copy(update={"max_tokens": tokens})

    def code_of(self, ordinal: int) -> str:
        """Return the code of the row of an ordinal whose sample has an error."""
        return NOT_ASKED if ordinal % len(self.samples) in self.unasked else UNREADABLE_SAMPLE

    @property
    def readable(self) -> list[int]:
        """Those of the missing ordinals whose samples can be read, so that a request can be sent."""
        return [ordinal for ordinal in self.missing if self.sample_of(ordinal).error is None]

    @property
    def measured(self) -> list[PlannedRequest]:
        """The requests that count, in the order in which they are sent."""
        own, scenario = [self.requests[ordinal] for ordinal in self.readable], self.spec.scenario
        return converse(own, turns=scenario.turns) if scenario.kind == "interactive" else own

    @property
    def instants(self) -> Instants | None:
        """When the requests that count are sent; None where each waits for an answer, or nothing can be asked.

        Of conversations it is when each begins.

        Raises:
            InvalidInput: the instants of the scenario cannot be drawn.
        """
        arrivals, count = self.spec.scenario.arrivals, len(self.readable)
        if arrivals is None or not count:
            return None
        if self.spec.scenario.kind == "interactive":
            count = len({request.conversation for request in self.measured})
        return instants_of(arrivals, count=count, seed=self.spec.scenario.seed)

    @property
    def uncounted(self) -> list[int]:
        """Samples in the order in which warm-up and baseline take them; empty where nothing can be asked.

        The order is random, so that the first are like the others however the dataset is sorted. Samples that are not
        measured come first, since an engine may still hold in its cache what it has read of a sample.
        """
        measured = {ordinal % len(self.samples) for ordinal in self.readable}
        if not measured:
            return []
        drawn = [sample.index for sample in self.samples if sample.error is None]
        random.Random(f"aside/{self.spec.scenario.seed}").shuffle(drawn)  # noqa: S311 - drawn, not secret
        return sorted(drawn, key=measured.__contains__)

    @property
    def probes(self) -> list[int]:
        """Samples that are asked before all others, in the order of `uncounted`; those with images come first."""
        return sorted(self.uncounted, key=lambda ordinal: not self.sample_of(ordinal).images)[:MAX_PROBES]


def _bytes_of(request: PlannedRequest) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in request.sent_texts)
