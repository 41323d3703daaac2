"""Make a finished run as the API shows it, with defaults: four requests, one unscored, one failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from tests.shared.reports.builders import run_spec
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, RunSpec
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.exporting import exported_run, exported_samples
from vlmhyperbench.wire.results import MeasureValue, Result, SentPrompt, ShownExample
from vlmhyperbench.wire.runs import Headline, MetricScore, RunDetail

RUN = UUID("00000000-0000-4000-8000-00000000000a")
IMAGE = "a" * 64
SHOWN = "b" * 64
EXAMPLE = ShownExample(key="t1", user_prompt="Q: box 1?", images=[SHOWN], answer="red")
JSON = ExtractorSpec(name="json_repaired")
METRICS = (
    MetricSpec(name="anls", profile="paper", version="1.0.0", class_path="anls"),
    MetricSpec(name="exact_match", profile="v1", version="2.0.0", class_path="exact_match"),
)
HEADLINE = Headline(
    scores=[
        MetricScore(
            metric="anls",
            value=0.7,
            ci_low=0.6,
            ci_high=0.8,
            n=2,
            n_without_value=1,
            invalid=1,
            lower=0.35,
            upper=0.85,
            evaluation_id="e1",
        ),
        MetricScore(metric="exact_match", value=0.5, n=2, evaluation_id="e2"),
    ]
)


def spec(**changes: object) -> RunSpec:
    """Make a spec with two metrics and two extractors."""
    made = run_spec(metrics=()).model_copy(update={"metrics": METRICS, "extractors": (ExtractorSpec(), JSON)})
    return made.model_copy(update=changes)


def run(*, pinned: RunSpec | None = None, **changes: object) -> RunDetail:
    """Make a run of four requests that has ended."""
    pinned = pinned or spec()
    made = RunDetail(
        id=RUN,
        experiment_id=None,
        parent_run_id=None,
        name="tiny on documents",
        state="SUCCEEDED",
        reason=None,
        headline=HEADLINE,
        target=pinned.target.served_name,
        task=pinned.task,
        scenario="offline",
        spec_digest="d" * 64,
        priority=0,
        is_paused=False,
        is_cancelling=False,
        stopping=None,
        in_flight=4,
        can_retune=False,
        total=4,
        done=4,
        failed=1,
        event_seq=9,
        created_by="me",
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        started_at=datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
        finished_at=datetime(2026, 1, 2, 3, 5, 5, 250_000, tzinfo=UTC),
        spec=pinned,
        phases=[],
        jobs=[],
    )
    return made.model_copy(update=changes)


def measure(metric: str = "anls", value: float | None = 1.0, **changes: object) -> MeasureValue:
    """Make what one metric says of one answer."""
    profile = next((described.profile for described in METRICS if described.name == metric), "")
    made = MeasureValue(
        metric=metric,
        profile=profile,
        extractor="text@1",
        evaluation_id="e1" if metric == "anls" else "e2",
        value=value,
        outcome="scored" if value is not None else "unscored",
        reason=None if value is not None else "invalid_output: no number",
    )
    return made.model_copy(update=changes)


def result(ordinal: int = 0, text: str | None = "blue", **changes: object) -> Result:
    """Make one answered request: sample and ordinal are alike, 20 tokens asked and 2 answered in 250 ms."""
    made = Result(
        run_id=RUN,
        phase=1,
        ordinal=ordinal,
        sample=ordinal,
        repeat=0,
        key=f"page/{ordinal}",
        question=f"What colour is box {ordinal}?",
        references=["blue", "azure"],
        group={"doc_class": "form", "question_type": None},
        images=[IMAGE],
        status="ok",
        outcome="answered",
        error_code=None,
        error=None,
        finish_reason="stop",
        text=text,
        reasoning=None,
        prompt_tokens=20,
        completion_tokens=2,
        ttft_ms=100.5,
        tpot_ms=149.5,
        latency_ms=250.0,
        measures=[measure("exact_match", 1.0), measure("anls", 1.0)],
    )
    return made.model_copy(update=changes)


def failed(ordinal: int) -> Result:
    """Make a request that no answer came to."""
    return result(
        ordinal,
        None,
        status="error",
        outcome="infrastructure_failure",
        error_code="timeout",
        error="timeout: no token in 300 s",
        finish_reason=None,
        prompt_tokens=None,
        completion_tokens=None,
        ttft_ms=None,
        tpot_ms=None,
        latency_ms=None,
        measures=[measure("anls", None, outcome="infrastructure_failure", reason="timeout")],
    )


def results() -> list[Result]:
    """Return the four requests of the run."""
    third = 1 / 3
    return [
        result(0),
        result(1, '{"a": 1}', measures=[measure("anls", third), measure("anls", 0.1, extractor="json_repaired@1")]),
        result(2, "", measures=[measure("anls", None), measure("exact_match", 0.0)]),
        failed(3),
    ]


def exported(detail: RunDetail | None = None) -> ExportedRun:
    """Return the header of a run on its way out."""
    return exported_run(detail or run())


def samples(found: Sequence[Result] | None = None, detail: RunDetail | None = None) -> list[ExportedSample]:
    """Return the requests of a run on their way out."""
    return list(exported_samples(detail or run(), [found if found is not None else results()]))


def prompt(system: str | None = None, **changes: object) -> SentPrompt:
    """Make a prompt as it was sent."""
    return SentPrompt(system_prompt=system, user_prompt="What colour is box 0?").model_copy(update=changes)
