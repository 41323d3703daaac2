"""The columns of runs, by which lists are filtered and plotted: the known ones, and which of them are numbers.

A run has values of the columns that apply to it; the columns of metrics, and values of spec and machine, are open sets.
"""

from __future__ import annotations

from typing import Final, Literal

SPEC: Final = "spec."
"""Prefix of columns that are values of the spec, such as `spec.decoding.temperature`."""
MANIFEST: Final = "manifest."
"""Prefix of columns that say with what a run was asked, such as `manifest.host`."""
METRICS: Final = "metrics."
"""Prefix of the columns of a metric: `metrics.<key>` is its value, others have one of the endings."""
METRIC_ENDINGS: Final = ("low", "high", "n_scored", "n_unscored", "direction")
TIMES: Final = ("latency_ms", "ttft_user_ms", "ttft_service_ms", "tpot_ms", "queue_ms")
TIME_PARTS: Final = ("mean", "p50", "p90", "p99", "max")

TEXT_COLUMNS: Final = frozenset(
    {
        *("id", "name", "state", "reason", "experiment_id", "parent_run_id", "created_by", "spec_digest", "is_paused"),
        *("created_at", "started_at", "finished_at", "target", "model", "backend", "task", "dataset", "scenario"),
        *("note", "tags", "metric", "metric_label", "metric_direction", "peak_memory_of", "cost_basis"),
        *("cost_currency", "cost_unknown", "validity", "platform_version"),
    }
)
"""Columns of words, times, lists and truths."""
NUMBER_COLUMNS: Final = frozenset(
    {
        *("priority", "queue_place", "total", "duration_s", "samples", "requested", "ok"),
        *("model_failures", "infrastructure_failures"),
        *("requests_missing", "truncation_rate", "metric_perfect", "latency_p50_ms", "latency_p99_ms", "ttft_p50_ms"),
        *("output_tokens_per_s", "samples_per_s", "goodput_per_s", "peak_memory_bytes", "energy_j_per_answer"),
        *("cost_total", "cost_per_answer", "cost_per_million_tokens", "engine_memory_bytes"),
        *(
            "accelerator_memory_bytes",
            "accelerator_share",
            "cpu_share",
            "power_w",
            "energy_j",
            "energy_j_per_1k_tokens",
        ),
        *("coverage", "accelerator_before_bytes", "accelerator_delta_bytes", "request_delta_bytes"),
        *(f"{time}.{part}" for time in TIMES for part in TIME_PARTS),
    }
)
"""Columns of numbers, apart from those of metrics."""
COLUMNS: Final = TEXT_COLUMNS | NUMBER_COLUMNS
HIGHER: Final = frozenset({"ok", "output_tokens_per_s", "samples_per_s", "goodput_per_s", "coverage"})
"""Columns of which more is better."""
LOWER: Final = frozenset(
    {
        *("duration_s", "model_failures", "infrastructure_failures", "requests_missing", "truncation_rate"),
        *("latency_p50_ms", "latency_p99_ms", "ttft_p50_ms", "cost_total", "cost_per_answer"),
        *("cost_per_million_tokens", "power_w", "energy_j", "energy_j_per_answer", "energy_j_per_1k_tokens"),
        *("peak_memory_bytes", "engine_memory_bytes", "accelerator_memory_bytes", "accelerator_delta_bytes"),
        "request_delta_bytes",
        *(f"{time}.{part}" for time in TIMES for part in TIME_PARTS),
    }
)
"""Columns of which less is better; of the other numbers neither end is."""
_METRIC_DIRECTIONS: Final[dict[str, Literal["higher", "lower"]]] = {"n_scored": "higher", "n_unscored": "lower"}


def metric_of(column: str) -> str | None:
    """Return the key of the metric of which a column is; None where it is of none."""
    if not column.startswith(METRICS):
        return None
    key = column.removeprefix(METRICS)
    head, dot, ending = key.rpartition(".")
    return head if dot and ending in METRIC_ENDINGS else key


def direction_of(column: str) -> Literal["higher", "lower"] | None:
    """Return which values of a column are better; None where none are, or where only the runs of a metric say so."""
    if column in HIGHER:
        return "higher"
    if column in LOWER:
        return "lower"
    return _METRIC_DIRECTIONS.get(column.rpartition(".")[2]) if column.startswith(METRICS) else None


def is_open(column: str) -> bool:
    """Return whether a column is of an open set that only runs know: a value of the spec or of the machine."""
    return any(column.startswith(prefix) and column != prefix for prefix in (SPEC, MANIFEST))


def is_number(column: str) -> bool:
    """Return whether the values of a column are numbers, as far as that is known."""
    return column in NUMBER_COLUMNS or (column.startswith(METRICS) and not column.endswith(".direction"))
