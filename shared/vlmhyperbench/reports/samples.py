"""`samples.parquet`: every measure of a run with what pairs it with other runs', to be compared without a server.

One row per answer, metric and extractor; an answer's text stands in the row of the first metric. The file's metadata
says what the run was, and which metric made the numbers.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY, Measured
from vlmhyperbench.domain.identity import definition_of
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.reports.answers import answers_of
from vlmhyperbench.reports.counting import count
from vlmhyperbench.reports.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.reports.headline import headline_row, run_data
from vlmhyperbench.reports.performance import performance_of
from vlmhyperbench.reports.quality import overall
from vlmhyperbench.reports.wording import public_metric
from vlmhyperbench.scoring.metrics import open_answering
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

NAME = "samples.parquet"
SCHEMA = "vlmhb/samples/v1"
_META = "vlmhyperbench"
_COLUMNS = polars.Schema(
    {
        "key": polars.String(),
        "repeat": polars.Int32(),
        "turn": polars.Int32(),
        "cluster": polars.String(),
        "metric": polars.String(),
        "extractor": polars.String(),
        "outcome": polars.String(),
        "value": polars.Float64(),
        "reason": polars.String(),
        "is_invalid": polars.Boolean(),
        "text": polars.String(),
    }
)
_PAIRED = (*PAIR_KEY, "cluster", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """A run's measures, as a file holds them."""

    meta: JsonObject
    """`run, name, headline, data, manifest_id, is_interrupted, metrics[]`."""
    frame: polars.DataFrame

    @property
    def name(self) -> str:
        return str(self.meta["name"])

    @property
    def spec(self) -> JsonObject:
        """The run's pinned spec; empty where the file has none."""
        data = self.meta.get("data")
        found = data.get("spec") if isinstance(data, dict) else None
        return found if isinstance(found, dict) else {}

    def answers(self) -> polars.DataFrame:
        """Return the rows of the first metric, which have the texts."""
        first = next(iter(self.described()), {"key": "", "extractor": ""})
        is_first = (polars.col("metric") == first["key"]) & (polars.col("extractor") == first["extractor"])
        return self.frame.filter(is_first)

    def described(self) -> list[JsonObject]:
        """Return what the metadata says of every metric by the extractor that counts."""
        found = self.meta.get("metrics")
        every = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        return [one for one in every if one["is_primary_extractor"]]

    def measured(self) -> dict[str, Measured]:
        """Return what paired comparisons need of these metrics, by their names.

        Raises:
            NotFound, InvalidInput, Conflict, PluginFailure: a metric cannot be opened here.
        """
        return {str(one["key"]): self._measured(one) for one in self.described()}

    def _measured(self, described: JsonObject) -> Measured:
        spec = MetricSpec.model_validate(described["spec"])
        metric = open_answering(spec, on_invalid="zero" if self.spec.get("on_invalid") == "zero" else "exclude")
        key, extractor = str(described["key"]), str(described["extractor"])
        frame = self.frame.filter((polars.col("metric") == key) & (polars.col("extractor") == extractor))
        # Statistics of other metrics are null in these rows.
        own = [name for name in frame.columns if name.startswith("stat.") and frame[name].null_count() < frame.height]
        return Measured(
            key=key,
            label=str(described["label"]),
            definition=definition_of(spec),
            description=metric.description,
            combine=metric.combine,
            frame=frame.select(*_PAIRED, *own),
        )


def write_samples(run: RunEvidence) -> bytes:
    """Return the Parquet file of a run."""
    every = [*run.scored, *(one for scored in run.scored_otherwise.values() for one in scored)]
    frames = [_rows(run, one, has_text=one is run.primary) for one in every]
    frame = polars.concat([polars.DataFrame(schema=_COLUMNS), *frames], how="diagonal")
    counts, performance, quality = count(run), performance_of(run), overall(run)
    meta: JsonValue = {
        "schema": SCHEMA,
        "run": run.id,
        "name": run.name,
        "manifest_id": run.manifest_id,
        "is_interrupted": performance.is_no_measure,
        "headline": headline_row(run, counts=counts, performance=performance, quality=quality),
        "data": run_data(run, counts=counts, performance=performance, quality=quality, by_group={}),
        "metrics": [
            {
                "key": one.key,
                "label": one.label,
                "extractor": one.extractor,
                "is_primary_extractor": one in run.scored,
                "environment": one.environment,
                "evaluation_id": one.evaluation_id,
                "spec": public_metric(one.spec).model_dump(mode="json"),
            }
            for one in every
        ],
    }
    buffer = io.BytesIO()
    text = json.dumps(meta, ensure_ascii=False, allow_nan=False, sort_keys=True)
    frame.write_parquet(buffer, compression="zstd", metadata={_META: text})
    return buffer.getvalue()


def read_samples(content: bytes, *, what: str) -> Samples:
    """Read such a file; `what` names it in complaints.

    Raises:
        InvalidInput: it is none.
    """
    try:
        meta = polars.read_parquet_metadata(io.BytesIO(content))
        frame = polars.read_parquet(io.BytesIO(content))
    except (polars.exceptions.PolarsError, OSError) as error:
        raise InvalidInput(f"{what} is no Parquet file: {str(error).splitlines()[0][:200]}.") from error
    found = parse_object(meta.get(_META, "{}"), what=f"The metadata of {what}", any_text=True)
    if found.get("schema") != SCHEMA or not set(_COLUMNS) <= set(frame.columns):
        raise InvalidInput(
            f"{what} is no samples file of a report ({SCHEMA}).", cure=f"Give a run's id, or its {NAME}."
        )
    return Samples(meta=found, frame=frame)


def _rows(run: RunEvidence, scored: ScoredMetric, *, has_text: bool) -> polars.DataFrame:
    answers = answers_of(run, scored).with_columns(
        polars.lit(scored.key).alias("metric"),
        polars.lit(scored.extractor).alias("extractor"),
        polars.col("text") if has_text else polars.lit(None, dtype=polars.String).alias("text"),
    )
    own = [name for name in answers.columns if name.startswith((GROUP, "stat."))]
    return answers.select(*(polars.col(name).cast(kind) for name, kind in _COLUMNS.items()), *own)
