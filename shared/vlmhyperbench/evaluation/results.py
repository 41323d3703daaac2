"""The result of an evaluation: its scores and samples as tables, in a notebook, as a report, and compared."""

from __future__ import annotations

import shutil
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

from vlmhyperbench.client.comparing import RunComparison, compare
from vlmhyperbench.client.handles import RunHandle
from vlmhyperbench.client.steps import measures
from vlmhyperbench.client.tables import MetricRow, Rows
from vlmhyperbench.data.images import image_key
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.evaluation.scoring import Answered
from vlmhyperbench.extras import needed_for
from vlmhyperbench.files import write_whole
from vlmhyperbench.reports.composing import draft_of, render
from vlmhyperbench.reports.document import write_number
from vlmhyperbench.reports.runs import ReportedRun
from vlmhyperbench.reports.samples import NAME, Samples, read_samples, write_samples
from vlmhyperbench.reports.sections.quality import digits_of
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.evidence import GROUP
from vlmhyperbench.summaries.headline import target_of
from vlmhyperbench.summaries.scores import Score
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.suggestions import did_you_mean

if TYPE_CHECKING:
    import pandas
    import polars

_FORMATS = ("html", "markdown", "json", "csv")


class Evaluation:
    """What a function came to on a task. A notebook shows its scores."""

    def __init__(self, answered: Answered, run: ReportedRun, *, folder: Path) -> None:
        """Keep the result; `folder`, which holds the images, is removed with it."""
        self._answered, self._run, self._folder = answered, run, folder
        finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def name(self) -> str:
        """Name in tables and reports."""
        return self._run.name

    @property
    def summary(self) -> RunSummary:
        """Everything that the report states, as one value."""
        return self._run.summary

    def __repr__(self) -> str:
        counts = self.summary.counts
        lines = [f"{score.key}: {_in_words(self, score)}" for score in self.summary.metrics]
        return "\n".join([f"{self.name} on {self.summary.spec.task}: {counts.answered} of {counts.requested}", *lines])

    def metrics(self, *, by: str | None = None) -> Rows[MetricRow]:
        """Return one row per metric with its 95 % interval; with `by`, one for each value of a group column.

        Raises:
            NotFound: there are no groups by this column.
        """
        summary = self.summary
        if by is not None and by not in summary.groups:
            cure = did_you_mean(by, summary.groups, nothing="Name it in group_by.")
            raise NotFound(f"{self.name} has no groups by {by!r}.", cure=cure)
        return Rows(_row(summary, score) for score in (summary.metrics if by is None else summary.groups[by]))

    def to_polars(self) -> polars.DataFrame:
        """Return one row per sample: what was asked and answered, its outcome, its groups, and a column per metric.

        `call_s` is how long the call took in this process, among others of the same time; it is no measurement.
        """
        import polars

        run = self._run.evidence
        facts = run.facts.with_columns(
            polars.Series("call_s", [self._answered.durations_s.get(no) for no in run.facts["sample"]], polars.Float64)
        )
        groups = [name for name in facts.columns if name.startswith(GROUP)]
        table = facts.select(
            *("key", "question", "references", "system_prompt", "user_prompt", "text", "status", "error_code", "error"),
            "call_s",
            *(polars.col(name).alias(name.removeprefix(GROUP)) for name in groups if _is_free(name)),
        )
        scores = [answers_of(run, scored).select(polars.col("value").alias(scored.key)) for scored in run.scored]
        outcomes = [answers_of(run, run.scored[0]).select("outcome", "reason")] if run.scored else []
        return polars.concat([table, *outcomes, *scores], how="horizontal")

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table of `to_polars` for pandas.

        Raises:
            Unavailable: pandas is not installed.
        """
        with needed_for("to_pandas()", extra="pandas"):
            import pandas
        return pandas.DataFrame(self.to_polars().to_dict(as_series=False))

    def show(self) -> None:
        """Show the scores: as a table in a notebook, as text elsewhere."""
        try:
            from IPython import get_ipython
            from IPython.display import display
        except ModuleNotFoundError:
            print(repr(self))
            return
        if get_ipython() is None:
            print(repr(self))
        else:
            display(self)

    def report(self, path: Path | str) -> Path:
        """Write the report into a folder, as a run's; return the page to open.

        A path that ends in `.html` is the page alone.

        Raises:
            OSError: the files cannot be written.
        """
        draft = draft_of(self.summary, self._run.evidence)
        pages = {sha256: (self._folder / image_key(sha256)).read_bytes() for sha256 in draft.images}
        files = {file.name: file.content for file in render(draft, pages, formats=_FORMATS)}
        target = Path(path)
        if target.suffix == ".html":
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, files["report.html"])
            return target
        target.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(target / name, content)
        return target / "report.html"

    def compare(self, other: Evaluation | RunHandle | Path | str) -> RunComparison:
        """Compare with a baseline, paired by sample: another evaluation, a run of a stack, or a `samples.parquet`.

        Raises:
            InvalidInput: the file is no file of samples.
            NotReady, NotFound, Unavailable: the run has no report, or its stack does not answer.
        """
        return RunComparison(compare(_samples_of(other), self._samples()))

    def _samples(self) -> Samples:
        return read_samples(write_samples(self.summary, self._run.evidence), what=f"{NAME} of {self.name}")

    def _repr_html_(self) -> str:
        counts, summary = self.summary.counts, self.summary
        title = f"{self.name} on {summary.spec.task}: {counts.answered} of {counts.requested} answered"
        failures = "".join(f"<li>{escape(group.in_words)}</li>" for group in summary.errors)
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(summary.identity(score.key).label)}</th>"
            f"<td>{_number(self, score, score.value)}</td>"
            f"<td>{_interval(self, score)}</td>"
            f"<td>{score.n_scored}</td><td>{score.n_unscored}</td></tr>"
            for score in summary.metrics
        )
        head = "<tr><th></th><th>value</th><th>95 % interval</th><th>n</th><th>without a value</th></tr>"
        return f"<table><caption>{escape(title)}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>" + (
            f"<ul>{failures}</ul>" if failures else ""
        )


def _samples_of(other: Evaluation | RunHandle | Path | str) -> Samples:
    if isinstance(other, Evaluation):
        return other._samples()  # noqa: SLF001 - its own class
    if isinstance(other, RunHandle):
        samples: Samples = other.client.do(measures(other))
        return samples
    path = Path(other)
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}.", cure=f"Give an evaluation, a run, or the path of a {NAME}.")
    return read_samples(path.read_bytes(), what=str(path))


def _row(summary: RunSummary, score: Score) -> MetricRow:
    return MetricRow(
        run=summary.name,
        metric=score.key,
        group=score.group[0] if score.group else None,
        value=score.value,
        ci_low=score.low,
        ci_high=score.high,
        n=score.n_scored,
        n_without_value=score.n_unscored,
        target=target_of(summary.spec),
        task=summary.spec.task,
        run_id=summary.id,
    )


def _in_words(evaluation: Evaluation, score: Score) -> str:
    return f"{_number(evaluation, score, score.value)} ({_interval(evaluation, score)}), n = {score.n_scored}"


def _interval(evaluation: Evaluation, score: Score) -> str:
    if score.interval is None:
        return "no interval"
    return f"{_number(evaluation, score, score.low)} to {_number(evaluation, score, score.high)}"


def _number(evaluation: Evaluation, score: Score, value: float | None) -> str:
    return write_number(value, digits_of(evaluation.summary.identity(score.key).description))


def _is_free(column: str) -> bool:
    """Return whether a group column's own name is not that of a column of every table."""
    return column.removeprefix(GROUP) not in {"key", "question", "references", "text", "status", "error", "outcome"}
