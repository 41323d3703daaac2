"""`samples.parquet`: every per-sample score of a run with the key by which runs are paired, to compare offline.

It has a row for each answer, metric and extractor; the row of the first metric has the answer's text. The metadata of
the file holds the run's summary and the specs of the metrics.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY, Measured
from vlmhyperbench.analysis.gates import Side
from vlmhyperbench.domain.identity import definition_of
from vlmhyperbench.domain.publishing import public_metric
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.reports.sides import side_of, side_of_first_version
from vlmhyperbench.scoring.metrics import NO_HOSTS, Hosts, Policy, is_combined_apart, open_stored
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.codec import from_object, to_object
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

NAME = "samples.parquet"
SCHEMA = "vlmhb/samples/v2"
FIRST_SCHEMA = "vlmhb/samples/v1"
"""Schema of files without a summary; they are read, but no longer written."""
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
    """The per-sample scores of a run, as a file holds them."""

    name: str
    manifest_id: str | None
    """Hash of the run's samples."""
    side: Side
    """What a comparison needs of the run as a whole."""
    metrics: tuple[JsonObject, ...]
    """Each has `key, label, extractor, is_primary_extractor, environment, evaluation_id, spec`, and a metric in its own
    environment has its `description`."""
    frame: polars.DataFrame

    def answers(self) -> polars.DataFrame:
        """Return the rows of the first metric, which have the texts."""
        first = next(iter(self.described()), {"key": "", "extractor": ""})
        is_first = (polars.col("metric") == first["key"]) & (polars.col("extractor") == first["extractor"])
        return self.frame.filter(is_first)

    def described(self) -> list[JsonObject]:
        """Return the metadata of every metric by the primary extractor."""
        return [described for described in self.metrics if described["is_primary_extractor"]]

    def combined_apart(self) -> dict[str, MetricSpec]:
        """Return the metrics, by name, whose values only their code can combine, in their own environment."""
        specs = [(MetricSpec.model_validate(described["spec"]), described) for described in self.described()]
        return {
            str(described["key"]): spec
            for spec, described in specs
            if is_combined_apart(spec, described.get("description"))
        }

    def measured(self, hosts: Hosts = NO_HOSTS) -> dict[str, Measured]:
        """Return these metrics by their names, for paired comparisons.

        Raises:
            NotFound, InvalidInput, Conflict, PluginFailure: a metric cannot be opened here.
        """
        return {str(described["key"]): self._measured(described, hosts) for described in self.described()}

    def _measured(self, described: JsonObject, hosts: Hosts) -> Measured:
        spec = MetricSpec.model_validate(described["spec"])
        on_invalid: Policy = "zero" if self.side.spec.get("on_invalid") == "zero" else "exclude"
        metric = open_stored(spec, described.get("description"), hosts, on_invalid=on_invalid)
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


def write_samples(summary: RunSummary, run: RunEvidence) -> bytes:
    """Return the Parquet file of a run."""
    every = [*run.scored, *(metric for scored in run.scored_otherwise.values() for metric in scored)]
    frames = [_rows(run, metric, has_text=metric is run.primary) for metric in every]
    frame = polars.concat([polars.DataFrame(schema=_COLUMNS), *frames], how="diagonal")
    meta: JsonValue = {
        "schema": SCHEMA,
        "summary": to_object(summary),
        "metrics": [
            {
                "key": metric.key,
                "label": metric.label,
                "extractor": metric.extractor,
                "is_primary_extractor": metric in run.scored,
                "environment": metric.environment,
                "evaluation_id": metric.evaluation_id,
                "spec": public_metric(metric.spec).model_dump(mode="json"),
                **({"description": asdict(metric.description)} if metric.spec.environment is not None else {}),
            }
            for metric in every
        ],
    }
    buffer = io.BytesIO()
    text = json.dumps(meta, ensure_ascii=False, allow_nan=False, sort_keys=True)
    frame.write_parquet(buffer, compression="zstd", metadata={_META: text})
    return buffer.getvalue()


def read_samples(content: bytes, *, what: str) -> Samples:
    """Read a samples file; `what` names it in errors.

    Raises:
        InvalidInput: it is not a samples file.
    """
    try:
        file_meta = polars.read_parquet_metadata(io.BytesIO(content))
        frame = polars.read_parquet(io.BytesIO(content))
    except (polars.exceptions.PolarsError, OSError) as error:
        raise InvalidInput(f"{what} is not a Parquet file: {str(error).splitlines()[0][:200]}.") from error
    meta = parse_object(file_meta.get(_META, "{}"), what=f"The metadata of {what}", any_text=True)
    if meta.get("schema") not in {SCHEMA, FIRST_SCHEMA} or not set(_COLUMNS) <= set(frame.columns):
        raise InvalidInput(
            f"{what} is not a samples file of a report ({SCHEMA}).", cure=f"Give a run's id, or its {NAME}."
        )
    metrics = tuple(_objects(meta.get("metrics")))
    if meta["schema"] == FIRST_SCHEMA:
        manifest_id = meta.get("manifest_id")
        return Samples(
            name=str(meta.get("name")),
            manifest_id=manifest_id if isinstance(manifest_id, str) else None,
            side=side_of_first_version(meta),
            metrics=metrics,
            frame=frame,
        )
    whole = meta.get("summary")
    summary = from_object(whole if isinstance(whole, dict) else {})
    return Samples(
        name=summary.name, manifest_id=summary.manifest_id, side=side_of(summary), metrics=metrics, frame=frame
    )


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, Sequence) else []


def _rows(run: RunEvidence, scored: ScoredMetric, *, has_text: bool) -> polars.DataFrame:
    answers = answers_of(run, scored).with_columns(
        polars.lit(scored.key).alias("metric"),
        polars.lit(scored.extractor).alias("extractor"),
        polars.col("text") if has_text else polars.lit(None, dtype=polars.String).alias("text"),
    )
    own = [name for name in answers.columns if name.startswith((GROUP, "stat."))]
    return answers.select(*(polars.col(name).cast(kind) for name, kind in _COLUMNS.items()), *own)
