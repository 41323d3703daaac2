"""`/runs/{run_id}/samples/{sample_id}`: everything about one request, and which samples are near it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path
from pydantic import JsonValue

from vlmhyperbench.db import measures
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.errors import Damaged, InvalidInput, NotFound
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.samples import (
    ComparedTexts,
    MetricTrace,
    ParsedAnswer,
    RequestTiming,
    SampleDetail,
    SampleNeighbours,
)
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf, SampleTablesOf
from vlmhyperbench_api.ids import MaybeAgainstId, RunId
from vlmhyperbench_api.listings import Filters, SearchText
from vlmhyperbench_api.members import read_members
from vlmhyperbench_api.results import Position, results_page
from vlmhyperbench_api.sample_rows import Selection, run_of, select, selection_of, table_of
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_sdk.protocols import ComparesTexts, Metric

if TYPE_CHECKING:
    import polars

    from vlmhyperbench_api.sample_table import SampleTable

router = APIRouter(prefix="/runs", tags=["results"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
SampleId = Annotated[str, Path(pattern=r"^[0-9]{1,9}\.[0-9]{1,18}$", description="`<phase>.<ordinal>`")]

MAX_EVENTS = 2_000
MAX_COMPARED_CHARACTERS = 20_000
MAX_REFERENCES = 20
_PAYLOAD = ("system_prompt", "user_prompt", "examples", "event_ns", "event_tokens", "trace")
_STATISTIC = "stat."


@router.get("/{run_id}/samples/{sample_id}")
async def get_sample(
    run_id: RunId,
    sample_id: SampleId,
    principal: Reader,
    runtime: RuntimeOf,
    tables: SampleTablesOf,
    against: MaybeAgainstId,
    where: Filters = None,
    q: SearchText = None,
    order: str | None = None,
) -> SampleDetail:
    """Return one request: prompt as sent, answer as parsed, every metric with its trace, timing, and its neighbours.

    Neighbours are those in the list with the same `where`, `q`, `order` and `against`.
    """
    run = await run_of(runtime.database, run_id, principal)
    baseline = None if against is None else await run_of(runtime.database, against, principal)
    result = await _result(runtime, run, sample_id)
    fact = await _fact(runtime, run, result)
    parsed = await asyncio.to_thread(_parsed, run, result.text)
    traces = await _traces(runtime, run, result, parsed)
    near, flip = SampleNeighbours(), None
    try:
        table = await table_of(tables, runtime.database, run, baseline)
    except InvalidInput as error:
        if error.code != "too_many_samples":
            raise
        table = None
    if table is not None:
        near, flip = await asyncio.to_thread(_near, table, sample_id, selection_of(where, q, order))
    return SampleDetail.model_validate(
        {
            "id": sample_id,
            "result": result,
            "metadata": _metadata(fact.get("metadata")),
            "system_prompt": fact.get("system_prompt"),
            "user_prompt": fact.get("user_prompt"),
            "examples": json.loads(fact["examples"]) if fact.get("examples") else [],
            "sent_images": result.images,
            "parsed": parsed,
            "traces": traces,
            "timing": _timing(fact, result),
            "pipeline": json.loads(fact["trace"]) if fact.get("trace") else None,
            "members": await read_members(runtime, run, result),
            "tries": fact["tries"],
            "http_status": fact["http_status"],
            "measured_by": fact["run_id"],
            "claim_id": fact["claim_id"],
            "flip": flip,
            "neighbours": near,
        }
    )


async def _result(runtime: Runtime, run: RunView, sample_id: str) -> Result:
    phase, ordinal = (int(part) for part in sample_id.split("."))
    page = await results_page(
        runtime.database, runtime.storage, run, after=Position(phase=phase, ordinal=ordinal - 1), limit=1
    )
    if not page.items or (page.items[0].phase, page.items[0].ordinal) != (phase, ordinal):
        raise NotFound(f"The run {run.id} has no sample {sample_id}.", cure="List its samples to see which there are.")
    return page.items[0]


async def _fact(runtime: Runtime, run: RunView, result: Result) -> Mapping[str, Any]:
    """Read the whole row of a request; without its payload where that is damaged."""
    from vlmhyperbench.facts.read import read_facts  # imports polars on first use

    read = {"phases": [result.phase], "ordinals": [result.ordinal]}
    try:
        frame = await read_facts(runtime.database, runtime.storage, run.id, payload=_PAYLOAD, **read)
    except Damaged:
        frame = await read_facts(runtime.database, runtime.storage, run.id, payload=False, **read)
    row: Mapping[str, Any] = frame.row(0, named=True)
    return row


async def _traces(runtime: Runtime, run: RunView, result: Result, parsed: Sequence[ParsedAnswer]) -> list[MetricTrace]:
    async with runtime.database.transaction() as session:
        files = await measures.of_run(session, run.id)
    return await asyncio.to_thread(
        _read_traces,
        run,
        result,
        {answer.extractor: answer.text for answer in parsed},
        [(file, path) for file, path in [(file, await _path(runtime, file)) for file in files] if path is not None],
    )


async def _path(runtime: Runtime, file: MeasureManifestView) -> Any:
    try:
        return await runtime.storage.open(file.storage_key, file.sha256)
    except Damaged:
        return None  # the result names the damaged file


def _read_traces(
    run: RunView,
    result: Result,
    parsed: Mapping[str, str | None],
    files: Sequence[tuple[MeasureManifestView, Any]],
) -> list[MetricTrace]:
    import polars as pl

    from vlmhyperbench_api.sample_table import files_of_metrics, installed_metric

    spec, traces = run.pinned_spec(), []
    at = (pl.col("phase") == result.phase) & (pl.col("ordinal") == result.ordinal) & pl.col("field").is_null()
    for key, (metric, own) in files_of_metrics(spec, files).items():
        stored = own[0][0].metrics[0].get("description") if own else None
        opened = installed_metric(spec, metric, stored)
        for file, path in own:
            rows = pl.scan_parquet(path, glob=False).filter(at).collect()
            for row in rows.iter_rows(named=True):
                compared = _compared(opened, parsed.get(row["extractor"]), result.references)
                traces.append(_trace(key, metric.profile, opened, file, row, compared))
    return traces


def _compared(metric: Metric | None, answer: str | None, references: Sequence[str]) -> ComparedTexts | None:
    if answer is None or not isinstance(metric, ComparesTexts):
        return None
    texts = [answer, *references[:MAX_REFERENCES]]
    try:
        first, *others = metric.compared([text[:MAX_COMPARED_CHARACTERS] for text in texts])
    except Exception:  # noqa: BLE001 - the code of plugins may raise anything, and the rest of the sample is known
        return None
    is_cut = any(len(text) > MAX_COMPARED_CHARACTERS for text in texts) or len(references) > MAX_REFERENCES
    return ComparedTexts(answer=first, references=others, is_cut=is_cut)


def _trace(
    key: str,
    profile: str,
    metric: Metric | None,
    file: MeasureManifestView,
    row: Mapping[str, Any],
    compared: ComparedTexts | None,
) -> MetricTrace:
    described = metric.description if metric is not None else None
    return MetricTrace(
        metric=key,
        label=described.title if described else key,
        profile=profile,
        extractor=row["extractor"],
        evaluation_id=file.evaluation_id,
        value=row["value"],
        outcome=row["outcome"],
        reason=row["reason"],
        is_invalid=bool(row.get("is_invalid")),
        low=described.range[0] if described else None,
        high=described.range[1] if described else None,
        direction=described.direction if described else None,
        normaliser=described.normaliser if described else None,
        formula=described.formula if described else None,
        compared=compared,
        statistics=_statistics(row),
    )


def _statistics(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the statistics that the answer has; those that are 0 are of labels and fields of other samples."""
    return {
        name.removeprefix(_STATISTIC): value
        for name, value in row.items()
        if name.startswith(_STATISTIC) and value is not None and value != 0
    }


def _parsed(run: RunView, text: str | None) -> list[ParsedAnswer]:
    """Read the answer by every extractor of the run, as scoring did."""
    from vlmhyperbench.scoring.extraction import extract

    if text is None:
        return []
    parsed = []
    for extractor in run.pinned_spec().extractors:
        extracted = extract([text], extractor=extractor)
        parsed.append(ParsedAnswer(extractor=extractor.label, text=extracted.texts[0], reason=extracted.reasons[0]))
    return parsed


def _timing(fact: Mapping[str, Any], result: Result) -> RequestTiming:
    scheduled = fact["scheduled_ns"]
    events: Sequence[int] = fact.get("event_ns") or ()
    tokens: Sequence[int] = fact.get("event_tokens") or ()
    end = fact["stream_end_ns"]
    return RequestTiming(
        queue_ms=None if fact["queue_ns"] is None else fact["queue_ns"] / NS_PER_MS,
        ttft_ms=result.ttft_ms,
        latency_ms=result.latency_ms,
        stream_end_ms=None if end is None or scheduled is None else (end - scheduled) / NS_PER_MS,
        tpot_ms=result.tpot_ms,
        events=len(events),
        events_ms=[] if scheduled is None else [(event - scheduled) / NS_PER_MS for event in events[:MAX_EVENTS]],
        event_tokens=list(tokens[:MAX_EVENTS]),
    )


def _metadata(text: str | None) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = json.loads(text) if text else {}
    return value


def _near(table: SampleTable, sample_id: str, selection: Selection) -> tuple[SampleNeighbours, str | None]:
    """Return the neighbours of a sample in a selection, and how it flipped."""
    rows: polars.DataFrame = select(table, selection)
    own = table.row_of(sample_id)
    flip = None if own is None else table.frame["flip"][own]
    places = (rows["id"] == sample_id).arg_true()
    if not len(places):
        return SampleNeighbours(), flip
    place = int(places[0])
    later = rows.slice(place + 1)
    return (
        SampleNeighbours(
            previous=rows["id"][place - 1] if place else None,
            next=_first(later),
            next_error=_first(later.filter(later["outcome"] != "answered")),
            next_wrong=_first(later.filter(later["is_wrong"].fill_null(value=False))),
            next_flip=_first(later.filter(later["flip"].is_in(["broke", "mended"]).fill_null(value=False))),
        ),
        flip,
    )


def _first(rows: polars.DataFrame) -> str | None:
    return str(rows["id"][0]) if rows.height else None
