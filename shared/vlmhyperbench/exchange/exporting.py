"""Convert a finished run from the API into the exported form, page by page.

Text is made valid for every format here: lone surrogates become U+FFFD, and so does NUL, except in the model's output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.specs import ExtractorSpec, ImportTarget, MetricSpec, RunSpec
from vlmhyperbench.domain.valid_text import storable, storable_json, valid_unicode
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, NotReady
from vlmhyperbench.exchange.exported import (
    ExportedExample,
    ExportedMeasure,
    ExportedRun,
    ExportedSample,
    ExportedScore,
)
from vlmhyperbench.scoring.extraction import extract
from vlmhyperbench.scoring.scores import INVALID
from vlmhyperbench.wire.results import MeasureValue, Result, ShownExample
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench_sdk.protocols import INVALID_ANSWER


def exported_run(run: RunDetail) -> ExportedRun:
    """Return the metadata of a run.

    Raises:
        NotReady: the run has not ended.
    """
    if not run.state.is_terminal:
        raise NotReady(
            f"The run {run.id} has not ended: it is {run.state.lower()}.",
            cure=f"Wait with `vlmhyperbench watch {run.id}`, or cancel it.",
            code="not_ended",
        )
    spec = run.spec
    return ExportedRun(
        id=str(run.id),
        name=storable(run.name),
        state=run.state.value,
        reason=storable(run.reason),
        spec=storable_json(public_spec(spec).model_dump(mode="json")),
        spec_digest=run.spec_digest,
        parent_run_id=str(run.parent_run_id) if run.parent_run_id else None,
        model=storable(spec.target.served_name),
        task=storable(spec.task),
        task_version=spec.task_version,
        dataset=storable(spec.dataset.name),
        decoding=spec.target.decoding
        if isinstance(spec.target, ImportTarget)
        else spec.decoding.model_dump(mode="json"),
        extractors=tuple(extractor.label for extractor in spec.extractors),
        headline=_scores(run),
        requested=run.done if run.stopping else run.total,
        created_at=run.created_at.isoformat(),
        started_at=run.started_at.isoformat() if run.started_at else None,
        finished_at=run.finished_at.isoformat() if run.finished_at else None,
        tool=f"vlmhyperbench {version('vlmhyperbench')}",
    )


def exported_samples(run: RunDetail, pages: Iterable[Sequence[Result]]) -> Iterator[ExportedSample]:
    """Yield every request of a run in order; one page is held in memory at a time.

    Raises:
        Conflict: the run has no request that counts, or a stored file of its answers or scores is damaged.
    """
    is_empty, order = True, _Order(run.spec)
    for page in pages:
        _check_complete(page)
        parsed = _parsed(run.spec, page)
        for i, result in enumerate(page):
            is_empty = False
            yield _sample(order, result, {label: texts[i] for label, texts in parsed.items()})
    if is_empty:
        why = f": {run.reason}" if run.reason else ""
        void = f" that counts; {run.done} came before its phase became void" if run.done else ""
        raise Conflict(
            f"The run {run.id} ended {run.state.lower()} without an answer{void}{why}.",
            cure=f"See why with `vlmhyperbench show {run.id}`.",
            code="no_answers",
        )


def _check_complete(page: Sequence[Result]) -> None:
    """Refuse results without their answers or scores: in an export they would look like failures of the model."""
    damaged = next((file for result in page for file in result.damaged), None)
    if damaged is not None:
        raise Conflict(damaged.message, cure=damaged.cure, code="storage_corrupt")


class _Order:
    """The order of an answer's measures and the names of metrics, both as in the report."""

    def __init__(self, spec: RunSpec) -> None:
        self._metrics = {(metric_spec.name, metric_spec.profile): i for i, metric_spec in enumerate(spec.metrics)}
        self._extractors = {extractor.label: i for i, extractor in enumerate(spec.extractors)}
        self._versions = _versions(spec.metrics)
        self._often = Counter(name for name, _ in self._metrics)

    def key(self, name: str, profile: str) -> str:
        return name if self._often[name] <= 1 else f"{name}@{profile}"

    def version(self, name: str, profile: str) -> str | None:
        return self._versions.get((name, profile))

    def rank(self, measure: ExportedMeasure) -> tuple[int, str, str, int, str, str]:
        """Return the sort key of a measure: metrics and extractors as in the spec, the whole answer before fields."""
        metric = self._metrics.get((measure.metric, measure.profile), len(self._metrics))
        extractor = self._extractors.get(measure.extractor, len(self._extractors))
        return metric, measure.metric, measure.profile, extractor, measure.extractor, measure.field or ""


def _versions(metrics: Sequence[MetricSpec]) -> dict[tuple[str, str], str]:
    """Return versions by name and profile; a metric with two versions in the run has none."""
    known: dict[tuple[str, str], set[str]] = {}
    for spec in metrics:
        known.setdefault((spec.name, spec.profile), set()).add(spec.version)
    return {key: next(iter(versions)) for key, versions in known.items() if len(versions) == 1}


def _sample(order: _Order, result: Result, parsed: dict[str, str | None]) -> ExportedSample:
    sent = result.prompt
    metadata = {name: value for name, value in result.group.items() if value is not None}
    measures = sorted((_measure(order, measure) for measure in result.measures), key=order.rank)
    return ExportedSample(
        phase=result.phase,
        ordinal=result.ordinal,
        sample=result.sample,
        repeat=result.repeat,
        key=storable(result.key) if result.key else str(result.sample),
        question=storable(result.question),
        system_prompt=storable(sent.system_prompt) if sent else None,
        user_prompt=storable(sent.user_prompt) if sent else None,
        examples=tuple(map(_example, sent.examples if sent else ())),
        references=tuple(storable(reference) for reference in result.references),
        metadata=storable_json(metadata),
        images=tuple(result.images),
        status=result.status,
        outcome=result.outcome,
        error_code=storable(result.error_code),
        error=storable(result.error),
        finish_reason=storable(result.finish_reason),
        text=valid_unicode(result.text),
        reasoning=valid_unicode(result.reasoning),
        prompt_tokens=result.prompt_tokens,
        completion_tokens=result.completion_tokens,
        ttft_ms=result.ttft_ms,
        tpot_ms=result.tpot_ms,
        latency_ms=result.latency_ms,
        measures=tuple(measures),
        parsed={label: storable(text) for label, text in parsed.items()} if result.status == "ok" else {},
    )


def _example(example: ShownExample) -> ExportedExample:
    return ExportedExample(
        key=storable(example.key),
        user_prompt=storable(example.user_prompt),
        images=tuple(example.images),
        answer=storable(example.answer),
    )


def _measure(order: _Order, measure: MeasureValue) -> ExportedMeasure:
    could_not_read = (measure.reason or "").startswith((INVALID, INVALID_ANSWER))
    return ExportedMeasure(
        key=order.key(measure.metric, measure.profile),
        metric=measure.metric,
        profile=measure.profile,
        version=order.version(measure.metric, measure.profile),
        extractor=measure.extractor,
        field=storable(measure.field),
        value=measure.value,
        outcome=measure.outcome,
        reason=storable(measure.reason),
        is_invalid=True if could_not_read else None,
        evaluation_id=measure.evaluation_id,
    )


def _parsed(spec: RunSpec, page: Sequence[Result]) -> dict[str, Sequence[str | None]]:
    """Parse the answers of a page with every extractor that the installed version has."""
    texts = [result.text or "" for result in page]
    parsed: dict[str, Sequence[str | None]] = {}
    for extractor in spec.extractors:
        read = _read(texts, extractor)
        if read is not None:
            parsed[extractor.label] = read
    return parsed


def _read(texts: list[str], extractor: ExtractorSpec) -> Sequence[str | None] | None:
    try:
        return extract(texts, extractor=extractor).texts
    except (NotFound, InvalidInput):  # the run was scored by another version, which had the extractor
        return None


def _scores(run: RunDetail) -> tuple[ExportedScore, ...]:
    spec, headline = run.spec, run.headline
    versions, scores = _versions(spec.metrics), []
    for score in headline.scores if headline is not None else ():
        name, profile = _named(spec.metrics, score.metric)
        scores.append(
            ExportedScore(
                key=score.metric,
                metric=name,
                profile=profile,
                version=versions.get((name, profile)),
                value=score.value,
                ci_low=score.ci_low,
                ci_high=score.ci_high,
                n=score.n,
                n_without_value=score.n_without_value,
                invalid=score.invalid,
                lower=score.lower,
                upper=score.upper,
                evaluation_id=score.evaluation_id or None,
            )
        )
    return tuple(scores)


def _named(metrics: Sequence[MetricSpec], key: str) -> tuple[str, str]:
    """Return name and profile of the metric that a headline's key names."""
    for spec in metrics:
        if key in {spec.name, f"{spec.name}@{spec.profile}"}:
            return spec.name, spec.profile
    name, _, profile = key.partition("@")
    return name, profile
