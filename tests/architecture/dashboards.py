"""Write the dashboards of Grafana from one description of each: `python -m tests.architecture.dashboards`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy/monitoring/grafana/dashboards"
COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "prometheus"}
GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"
P = "vlmhyperbench_"


def stat(title: str, query: str, *, unit: str = "short", steps: dict[float, str] | None = None, width: int = 4) -> dict:
    """One number, whose colour says whether it is well; `steps` maps a value to the colour from it on."""
    first, *others = (steps or {0: BLUE}).items()
    thresholds = [{"value": None, "color": first[1]}, *({"value": value, "color": colour} for value, colour in others)]
    return {
        "type": "stat",
        "title": title,
        "targets": [_target(query, "")],
        "size": (width, 4),
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": thresholds}},
            "overrides": [],
        },
        "options": {
            "colorMode": "value",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


def graph(
    title: str,
    *queries: tuple[str, str],
    unit: str = "short",
    stacked: bool = False,
    width: int = 12,
    about: str = "",
    top: float | None = None,
) -> dict:
    """Lines over time; each query with the legend of its lines."""
    return {
        "type": "timeseries",
        "title": title,
        "description": about,
        "targets": [_target(query, legend, chr(ord("A") + number)) for number, (query, legend) in enumerate(queries)],
        "size": (width, 8),
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "min": 0,
                **({} if top is None else {"max": top}),
                "custom": {
                    "drawStyle": "line",
                    "lineWidth": 2,
                    "fillOpacity": 25 if stacked else 8,
                    "gradientMode": "opacity",
                    "showPoints": "never",
                    "spanNulls": 60_000,
                    "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
                },
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def bars(title: str, query: str, legend: str, *, unit: str, width: int = 12, about: str = "") -> dict:
    """A bar for each label, full at 1."""
    return {
        "type": "bargauge",
        "title": title,
        "description": about,
        "targets": [_target(query, legend)],
        "size": (width, 8),
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "min": 0,
                "max": 1,
                "thresholds": {
                    "mode": "absolute",
                    "steps": [{"value": None, "color": GREEN}, {"value": 0.8, "color": ORANGE}],
                },
            },
            "overrides": [],
        },
        "options": {
            "displayMode": "gradient",
            "orientation": "horizontal",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


def _target(query: str, legend: str, ref: str = "A") -> dict[str, Any]:
    return {"refId": ref, "datasource": SOURCE, "expr": query, "legendFormat": legend, "range": True}


def _quantiles(name: str, by: str = "") -> list[tuple[str, str]]:
    group = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    bucket = f"sum by ({group}) (rate({P}{name}_bucket[$__rate_interval]))"
    return [(f"histogram_quantile({q}, {bucket})", f"p{round(q * 100)}{legend}") for q in (0.5, 0.99)]


def per_s(name: str, by: str = "") -> tuple[str, str]:
    """Query the growth of a counter per second, and the legend of its lines."""
    return f"sum{_by(by)}(rate({P}{name}[$__rate_interval]))", _legend(by, name)


def grown(name: str, by: str = "") -> tuple[str, str]:
    """Query by how much a counter grew, and the legend of its lines."""
    return f"sum{_by(by)}(increase({P}{name}[$__rate_interval]))", _legend(by, name)


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else ""


def _legend(labels: str, name: str) -> str:
    shown = " ".join(f"{{{{{label.strip()}}}}}" for label in labels.split(",")) if labels else ""
    return shown or name.removesuffix("_total").replace("_", " ")


def once(selector: str, by: str) -> str:
    """Query the sum of a number of the whole platform, which every API of several serves alike."""
    return f"sum(max by ({by}) ({P}{selector}))"


ERRORS = f'sum(rate({P}http_requests_total{{status=~"5.."}}[$__rate_interval])) or vector(0)'
OK_AT_ONE = {0: RED, 1: GREEN}
BAD_ABOVE_ZERO = {0: GREEN, 1: RED}

OVERVIEW = [
    stat("API", 'up{job="platform"}', steps=OK_AT_ONE),
    stat("Scheduler leads", f"{P}scheduler_up", steps=OK_AT_ONE),
    stat("Redis answers", f"{P}redis_up", steps=OK_AT_ONE),
    stat("Runs under way", once('runs{state=~"QUEUED|INDEXED|RUNNING"}', "state")),
    stat("Devices in quarantine", once('devices{state="broken"}', "kind"), steps=BAD_ABOVE_ZERO),
    stat("Storage left", f"{P}storage_free_bytes", unit="bytes", steps={0: RED, 5e9: ORANGE, 2e10: GREEN}),
    graph("Jobs that wait for a worker", (f"{P}queue_depth", "{{kind}}"), stacked=True),
    graph("Longest wait", (f"{P}queue_oldest_seconds", "{{kind}}"), unit="s"),
    graph("Answers stored per second", per_s("samples_written_total"), unit="ops"),
    graph(
        "Jobs under way",
        (f'sum by (kind) (max by (kind, state) ({P}jobs{{state=~"ASSIGNED|RUNNING"}}))', "{{kind}}"),
        stacked=True,
    ),
    graph("Database", (f"{P}database_size_bytes", "size"), unit="bytes", width=8),
    graph("Connections to the database", (f"{P}database_connections", "connections"), width=8),
    graph("Alerts of the last ten minutes", (f"{once('alerts_recent', 'code')} or vector(0)", "alerts"), width=8),
]

WORKERS = [
    *(
        stat(f"{kind.capitalize()} workers", once(f'workers{{kind="{kind}", state="live"}}', "kind"), steps=OK_AT_ONE)
        for kind in ("inference", "evaluation", "reporting")
    ),
    stat("Draining", once('workers{state="draining"}', "kind"), steps={0: GREEN, 1: ORANGE}),
    stat("Stale", once('workers{state="stale"}', "kind"), steps=BAD_ABOVE_ZERO),
    stat("Oldest lease", f"{P}lease_age_seconds", unit="s", steps={0: GREEN, 15: ORANGE, 30: RED}),
    bars(
        "Memory reserved, by device",
        f"{P}device_memory_reserved_bytes / {P}device_memory_bytes",
        "{{host}} {{worker}} {{device}} ({{name}})",
        unit="percentunit",
    ),
    graph("Jobs on devices", (f"{P}device_jobs", "{{worker}} {{device}}"), stacked=True),
    graph(
        "Busy slots",
        (f"{P}worker_slots_busy / ({P}worker_slots > 0)", "{{kind}}"),
        unit="percentunit",
        top=1,
    ),
    graph(
        "How assignments were found",
        grown("assignments_found_total", "cause"),
        stacked=True,
        about="A poll that finds more than the doorbell says that messages of the broker are lost.",
    ),
    graph("Renewals of leases", per_s("lease_renewals_total", "result"), unit="ops"),
    graph(
        "Claims lost and reaped",
        (f"sum(increase({P}fenced_total[$__rate_interval])) or vector(0)", "fenced"),
        (f"sum(increase({P}leases_reaped_total[$__rate_interval])) or vector(0)", "reaped"),
        about="A fenced worker wrote nothing: no sample is counted twice.",
    ),
    graph("Time of loading a target", *_quantiles("target_load_duration_seconds"), unit="s"),
    graph(
        "Memory of the platform's processes",
        ('process_resident_memory_bytes{job="processes"}', "{{service}}"),
        unit="bytes",
    ),
]

RUNS = [
    *(
        stat(
            state.capitalize(),
            once(f'runs{{state="{state}"}}', "state"),
            steps={0: BLUE} if colour is None else colour,
        )
        for state, colour in {
            "QUEUED": None,
            "RUNNING": None,
            "SUCCEEDED": {0: GREEN},
            "PARTIAL": {0: GREEN, 1: ORANGE},
            "FAILED": BAD_ABOVE_ZERO,
            "CANCELLED": None,
        }.items()
    ),
    graph("Claims that ended, by outcome", grown("jobs_finished_total", "outcome"), stacked=True),
    graph("Answers stored per second", per_s("samples_written_total"), unit="ops"),
    graph("Time of a job, p50 and p99", *_quantiles("job_duration_seconds", "kind"), unit="s"),
    graph("Targets loaded", grown("target_loads_total", "result"), stacked=True),
    graph("Metrics computed", grown("evaluations_total", "result"), stacked=True),
    graph("Reports written", grown("reports_total")),
]

SLOWEST = (
    f"topk(8, histogram_quantile(0.99, "
    f"sum by (le, route) (rate({P}http_request_duration_seconds_bucket[$__rate_interval]))))"
)
API = [
    stat("Requests per second", f"sum(rate({P}http_requests_total[$__rate_interval]))", unit="reqps", width=6),
    stat("Errors of the API", ERRORS, unit="reqps", steps={0: GREEN, 0.01: RED}, width=6),
    stat("Live connections", f"sum({P}live_connections)", width=6),
    stat("Submissions", f"sum({P}submissions_total)", width=6),
    graph("Requests, by route", per_s("http_requests_total", "method, route"), unit="reqps", stacked=True),
    graph("Answers, by status", per_s("http_requests_total", "status"), unit="reqps", stacked=True),
    graph("Time of a request, p50 and p99", *_quantiles("http_request_duration_seconds"), unit="s"),
    graph(
        "Slowest routes, p99",
        (
            f"topk(8, histogram_quantile(0.99, {per_s('http_request_duration_seconds_bucket', 'le, route')[0]}))",
            "{{route}}",
        ),
        unit="s",
    ),
    graph("Time of a scheduler's tick", *_quantiles("scheduler_tick_duration_seconds"), unit="s"),
    graph("Decisions of the scheduler", grown("scheduler_decisions_total", "decision"), stacked=True),
]

DASHBOARDS = {
    "overview": ("Platform", OVERVIEW),
    "workers": ("Workers and devices", WORKERS),
    "runs": ("Runs", RUNS),
    "api": ("API and scheduler", API),
}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it: the panels in rows, from left to right."""
    title, described = DASHBOARDS[name]
    panels, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(described, 1):
        width, tall = panel["size"]
        if x + width > COLUMNS:
            x, y, height = 0, y + height, 0
        fields = {key: value for key, value in panel.items() if key != "size"}
        place = {"x": x, "y": y, "w": width, "h": tall}
        panels.append({"id": number, "datasource": SOURCE, "gridPos": place, **fields})
        x, height = x + width, max(height, tall)
    link = {"type": "dashboards", "tags": ["vlmhyperbench"], "asDropdown": False, "title": "", "keepTime": True}
    return {
        "uid": f"vlmhyperbench-{name}",
        "title": f"VLMHyperBench: {title}",
        "tags": ["vlmhyperbench"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "links": [link],
        "panels": panels,
    }


def text_of(name: str) -> str:
    """Return the file of a dashboard."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def main() -> None:
    """Write every dashboard."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
