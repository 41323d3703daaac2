"""All samples of a report's runs in a table to search and sort; if there are too many, mistakes come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars

from vlmhyperbench.analysis.mistakes import Mistake
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.reports.document import MAX_TEXT, SampleTable, Section, write_number
from vlmhyperbench.reports.sections.wording import group_title, plural
from vlmhyperbench.scoring.extraction import TEXT, extract
from vlmhyperbench.summaries.answers import ROW
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric

MAX_SAMPLES = 20_000
"""Maximum number over all runs of a report, which have equal shares."""
MAX_BYTES = 4_000_000
"""Maximum number of UTF-8 bytes of their texts; runs have equal shares."""
MAX_IMAGES = 4
"""Maximum number of images of one sample."""
MAX_REFERENCES = 5
_TEXTS = ("key", "question", "text", "text", "error")
"""Columns whose bytes are counted; the text counts twice, for the text that the extractor reads."""
_DIGITS = 4


def samples_section(runs: Sequence[RunEvidence], *, wrong: polars.DataFrame | None = None) -> Section:
    """Return the section with all samples, or as many as the bounds allow.

    Args:
        runs: the runs whose answers it shows.
        wrong: what `wrong_answers` returns for a single run; outcomes are then the kinds of mistakes.
    """
    metrics = tuple(dict.fromkeys(scored.label for run in runs for scored in run.scored))
    groups = tuple(dict.fromkeys(column for run in runs for column in run.groups))
    share = max(1, len(runs))
    frames = [_frame(run, no, metrics=metrics, groups=groups, wrong=wrong, share=share) for no, run in enumerate(runs)]
    total = sum(run.facts.height for run in runs)
    rows = polars.concat(frames) if frames else polars.DataFrame()
    if not rows.height:
        return Section(name="samples", title="All samples", lead="No sample was asked.", blocks=())
    columns: dict[str, Any] = {name: tuple(map(_frozen, rows[name].to_list())) for name in rows.columns}
    table = SampleTable(
        name="all-samples",
        note=_note(rows.height, total, is_run=len(runs) == 1),
        total=total,
        runs=tuple(run.name for run in runs),
        metrics=metrics,
        groups=tuple(group_title(column) for column in groups),
        **columns,
    )
    return Section(
        name="samples",
        title="All samples",
        lead=f"Search and sort {plural(rows.height, 'answer')}; open an answer for its page, references and scores.",
        blocks=(table,),
    )


def _note(shown: int, total: int, *, is_run: bool) -> str:
    samples = "samples.parquet of this report" if is_run else "the samples.parquet of each run"
    rest = f"All scores are in {samples}; `vlmhyperbench export RUN` writes all answers in full."
    if shown == total:
        return f"All answers are in this file; texts longer than {MAX_TEXT} characters are cut. {rest}"
    return (
        f"This file holds {write_number(shown, 0)} of {plural(total, 'answer')}: those that failed or are wrong "
        f"first, then the others in their order, up to {write_number(MAX_SAMPLES, 0)} answers or "
        f"{MAX_BYTES // 10**6} MB of text. {rest}"
    )


def _frame(
    run: RunEvidence,
    no: int,
    *,
    metrics: Sequence[str],
    groups: Sequence[str],
    wrong: polars.DataFrame | None,
    share: int,
) -> polars.DataFrame:
    """Return the rows of one run as `SampleTable` has them, in the order in which they were asked."""
    frame = run.facts.with_row_index("index").with_columns(polars.lit(None, dtype=polars.String).alias("kind"))
    for number, label in enumerate(metrics):
        scored = next((scored for scored in run.scored if scored.label == label), None)
        frame = _with_value(frame, scored, f"score {number}")
    if wrong is not None and wrong.height:
        kinds = wrong.select(*ROW, "kind")
        frame = frame.drop("kind").join(kinds, on=list(ROW), how="left", maintain_order="left")
    frame = _bounded(_with_fields(run, frame.with_columns(_outcome(run, metrics))), share)
    column = {name: GROUP + name if GROUP + name in frame.columns else None for name in groups}
    is_failed = polars.col("status") != "ok"
    return _with_parsed(run, frame).select(
        run=polars.lit(no, dtype=polars.Int32),
        key="key",
        outcome="outcome",
        question=_cut("question"),
        references=polars.col("references").fill_null([]).list.head(MAX_REFERENCES).list.eval(_cut("")),
        answer=_cut("text"),
        parsed=_cut("parsed"),
        fields="fields",
        note_of=polars.concat_str(
            polars.when(is_failed).then(polars.coalesce(polars.col("error").replace("", None), "error_code")),
            polars.when(polars.col("finish_reason") == "length").then(polars.lit(Mistake.CUT_OFF.value)),
            polars.when(polars.col("repeat") > 0).then(polars.format("repeat {}", "repeat")),
            polars.when(polars.col("turn") > 0).then(polars.format("turn {}", "turn")),
            separator="; ",
            ignore_nulls=True,
        ).str.head(300),
        scores=polars.concat_list(f"score {number}" for number in range(len(metrics))) if metrics else _no_list(),
        group_values=polars.concat_list(
            (polars.col(name).cast(polars.String) if name else polars.lit(None, dtype=polars.String))
            for name in column.values()
        )
        if groups
        else _no_list(polars.String()),
        latency_ms=(polars.col("latency_ns") / NS_PER_MS).round(2),
        tokens=polars.col("completion_tokens").cast(polars.Int64),
        images=polars.col("images").fill_null([]).list.head(MAX_IMAGES),
    )


def _with_value(frame: polars.DataFrame, scored: ScoredMetric | None, name: str) -> polars.DataFrame:
    if scored is None:
        return frame.with_columns(polars.lit(None, dtype=polars.Float64).alias(name))
    own = scored.measures.filter(polars.col("field").is_null())
    values = own.select(*ROW, polars.col("value").round(_DIGITS).alias(name)).unique(list(ROW), keep="first")
    return frame.join(values, on=list(ROW), how="left", maintain_order="left")


def _outcome(run: RunEvidence, metrics: Sequence[str]) -> polars.Expr:
    """Return the outcome of an answer in a few words, by which readers filter."""
    failed = polars.format("failed: {}", polars.col("error_code").fill_null("unknown"))
    answered = polars.lit("not scored")
    if run.primary is not None:
        value = polars.col(f"score {metrics.index(run.primary.label)}")
        judged = polars.lit("scored")
        if run.primary.perfect is not None:
            judged = (
                polars.when(value == round(run.primary.perfect, _DIGITS))
                .then(polars.lit("right"))
                .otherwise(polars.coalesce("kind", polars.lit("wrong")))
            )
        answered = polars.when(value.is_null()).then(answered).otherwise(judged)
    return polars.when(polars.col("status") == "ok").then(answered).otherwise(failed).alias("outcome")


def _bounded(frame: polars.DataFrame, share: int) -> polars.DataFrame:
    """Keep the rows that fit the bounds, wrong and failed answers first; the kept rows stay in their order."""
    length = polars.element().str.head(MAX_TEXT).str.len_bytes()
    texts = [polars.col(name).str.head(MAX_TEXT).str.len_bytes().fill_null(0) for name in _TEXTS]
    references = polars.col("references").fill_null([]).list.head(MAX_REFERENCES).list.eval(length).list.sum()
    mistakes_first = frame.sort(polars.col("outcome").is_in(["right", "scored"]), maintain_order=True)
    size = mistakes_first.select(polars.sum_horizontal(*texts, references).cum_sum())[:, 0]
    return mistakes_first.filter(size <= MAX_BYTES // share).head(MAX_SAMPLES // share).sort("index")


def _with_fields(run: RunEvidence, frame: polars.DataFrame) -> polars.DataFrame:
    """Add the score of each field, by the first metric that compares fields."""
    for scored in run.scored:
        fields = scored.measures.filter(polars.col("field").is_not_null())
        if fields.height:
            value = polars.col("value").round(2).cast(polars.String).fill_null("–")
            scores = fields.group_by(*ROW, maintain_order=True).agg(
                polars.concat_str("field", value, separator=" ").str.join(", ").str.head(600).alias("fields")
            )
            return frame.join(scores, on=list(ROW), how="left", maintain_order="left")
    return frame.with_columns(polars.lit(None, dtype=polars.String).alias("fields"))


def _with_parsed(run: RunEvidence, frame: polars.DataFrame) -> polars.DataFrame:
    """Add the text that the primary extractor read, where it differs from the answer."""
    extractor = run.spec.extractors[0]
    if extractor == TEXT:
        return frame.with_columns(polars.lit(None, dtype=polars.String).alias("parsed"))
    texts = [text or "" for text in frame["text"].to_list()]
    read = extract(texts, extractor=extractor)
    parsed = [
        (None if text == answer else text) if text is not None else f"cannot be read: {reason}"
        for text, answer, reason in zip(read.texts, texts, read.reasons, strict=True)
    ]
    return frame.with_columns(polars.Series("parsed", parsed, dtype=polars.String))


def _cut(column: str) -> polars.Expr:
    """Shorten a column as `document.cut` does, or the elements of a list if `column` is empty."""
    text = polars.col(column) if column else polars.element()
    more = text.str.len_chars().cast(polars.Int64) - MAX_TEXT
    short = polars.format("{}… ({} more characters)", text.str.head(MAX_TEXT), more)
    return polars.when(more > 0).then(short).otherwise(text)


def _no_list(of: polars.DataType | None = None) -> polars.Expr:
    return polars.lit([], dtype=polars.List(of or polars.Float64()))


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
