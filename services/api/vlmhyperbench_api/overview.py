"""Render the stack's web page to HTML without I/O; all text is escaped, and the page has no scripts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

from vlmhyperbench.bus import Progress
from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.wire.runs import ExperimentDetail, Run

REFRESH_S = 5
_TONES = {"SUCCEEDED": "good", "DONE": "good", "FAILED": "bad", "CANCELLED": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run with the progress of its current stage."""

    run: Run
    progress: Progress | None = None

    @property
    def share(self) -> float | None:
        """Completed share of the current stage, or else of the answers, from 0 to 1; None if the total is unknown."""
        done, total = (self.progress.done, self.progress.total) if self.progress else (self.run.done, self.run.total)
        return min(1.0, done / total) if total else None

    @property
    def doing(self) -> str:
        """Short text on the current stage, or on what the run waits for."""
        if self.progress is None:
            return self.run.waits_for.message if self.run.waits_for else ""
        rate = f", {self.progress.rate_per_s:.1f}/s" if self.progress.rate_per_s else ""
        total = f" of {number(self.progress.total)}" if self.progress.total else ""
        return f"{self.progress.stage}: {number(self.progress.done)}{total}{rate}"

    @property
    def scores(self) -> list[tuple[str, str, str]]:
        """Metric, value and interval of the first two scores."""
        first = self.run.headline.scores[:2] if self.run.headline else []
        return [
            (
                score.metric.replace("_", " "),
                "–" if score.value is None else f"{score.value:.3f}",
                "" if score.ci_low is None or score.ci_high is None else f"{score.ci_low:.3f} to {score.ci_high:.3f}",
            )
            for score in first
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Content of the page, newest first."""

    experiments: Sequence[tuple[ExperimentDetail, Sequence[RunLine]]]
    runs: Sequence[RunLine]

    @property
    def is_moving(self) -> bool:
        """Whether any run is still open, so that the page may change."""
        lines = [*self.runs, *(line for _, own in self.experiments for line in own)]
        return any(not line.run.state.is_terminal for line in lines)


def overview_page(overview: Overview) -> str:
    """Return the page of runs and experiments; it reloads itself while a run is open."""
    return _write("overview.html.j2", overview=overview, refresh_s=REFRESH_S if overview.is_moving else None)


def files_page(name: str, shown: Sequence[ArtifactView]) -> str:
    """Return the page that lists the files of a report without an HTML page."""
    return _write("files.html.j2", name=name, files=shown)


def message_page(message: str, cure: str) -> str:
    """Return an error page with a message and its cure."""
    return _write("message.html.j2", message=message, cure=cure)


def page_policy() -> str:
    """Return the content security policy of these pages: one inline style sheet and nothing else."""
    return (
        f"default-src 'none'; style-src 'sha256-{_style()[1]}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def number(value: int) -> str:
    """Format a count with narrow spaces as group separators."""
    return f"{value:,}".replace(",", "\u202f")


def _write(template: str, **values: object) -> str:
    return _template(template).render(style=_style()[0], number=number, tones=_TONES, **values)


@cache
def _template(name: str) -> Template:
    loader = FunctionLoader(_resource)
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


@cache
def _style() -> tuple[str, str]:
    """Return the style sheet and its digest."""
    text = _resource("page.css")
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _resource(name: str) -> str:
    return (files("vlmhyperbench_api") / "templates" / name).read_text(encoding="utf-8")
