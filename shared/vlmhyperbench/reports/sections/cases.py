"""Choose the samples worth reading: mistakes of a run, flips between two runs. The same facts give the same choice."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY
from vlmhyperbench.analysis.mistakes import Mistake
from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.reports.document import Case, Cases, Prediction, Tone, compare_text, cut, write_number
from vlmhyperbench.reports.sections.answers import detail_of, with_detail
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.summaries.members import MemberEvidence

MAX_CASES = 24
MAX_FLIPS = 24
"""Maximum number of flips over all comparisons of a report."""
BROKE = "broke"
MENDED = "mended"

_SHOWN = (
    *("cluster", "images", "question", "references", "text"),
    *("status", "error_code", "finish_reason", "value", "detail"),
)
"""Columns of a row that a case shows, in addition to its key and groups."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """An answer that is right in one run and wrong in the other."""

    kind: str
    """`broke` or `mended`."""
    baseline: Row
    other: Row


def mistake_counts(wrong: polars.DataFrame) -> dict[str, int]:
    """Count kinds of mistakes, the most frequent first."""
    return dict(sorted(Counter(wrong["kind"].to_list()).items(), key=lambda item: (-item[1], item[0])))


def mistakes(run: RunEvidence, wrong: polars.DataFrame) -> Cases:
    """Choose wrong answers: every kind in turn, the most frequent first, each on a new page as long as there are any.

    `wrong` is what `wrong_answers` returns.
    """
    candidates = wrong.select("kind", "cluster").with_row_index("index")
    chosen = _in_turn(candidates.iter_rows(named=True), order=list(mistake_counts(wrong)))[:MAX_CASES]
    indices = polars.Series([row["index"] for row in chosen], dtype=polars.UInt32)
    rows = list(with_detail(run, wrong[indices]).iter_rows(named=True))
    return Cases(
        name="mistakes",
        title="",
        items=tuple(_case(row, kind=str(row["kind"]), groups=run.groups, answers=_answers(run, row)) for row in rows),
        note=(
            f"{plural(len(rows), 'case')} of {plural(wrong.height, 'wrong answer')}, chosen in turn from every kind, "
            "on different pages where possible. Missing characters are struck out, characters that should not be "
            "there are marked."
        ),
    )


def find_flips(baseline: RunEvidence, other: RunEvidence) -> list[Flip]:
    """Return the answers that are right in one run and wrong in the other, in the baseline's order."""
    if baseline.primary is None or other.primary is None or baseline.primary.perfect is None:
        return []
    if not baseline.primary.identity.is_same(other.primary.identity):
        return []
    perfect = baseline.primary.perfect
    first, second = _scored(baseline, baseline.primary), _scored(other, other.primary)
    is_right = (polars.col("value") == perfect).alias("is_right")
    in_second = second.with_row_index("second").select(*PAIR_KEY, "second", is_right.alias("second_is_right"))
    pairs = (
        first.with_row_index("first")
        .select(*PAIR_KEY, "first", is_right)
        .join(in_second.unique(PAIR_KEY, keep="last"), on=PAIR_KEY, maintain_order="left")
        .filter(polars.col("is_right") != polars.col("second_is_right"))
    )
    rows = zip(
        pairs["is_right"],
        first[pairs["first"]].iter_rows(named=True),
        second[pairs["second"]].iter_rows(named=True),
        strict=True,
    )
    return [
        Flip(kind=BROKE if was_right else MENDED, baseline=first_row, other=second_row)
        for was_right, first_row, second_row in rows
    ]


def _scored(run: RunEvidence, metric: ScoredMetric) -> polars.DataFrame:
    """Return the answers of a run that have a value, with the columns that a case shows."""
    shown = [*PAIR_KEY, *_SHOWN, *(GROUP + group for group in run.groups)]
    return with_detail(run, answers_of(run, metric)).filter(polars.col("value").is_not_null()).select(*shown)


def most_flipped(flips: Sequence[Flip], groups: Sequence[str]) -> tuple[str, str, int] | None:
    """Return the column, the value and the size of the largest group of flips by the last column, the finest one."""
    counts = Counter(
        (column, str(value))
        for flip in flips
        for column in groups
        if (value := flip.baseline.get(GROUP + column)) is not None
    )
    finest = [(number, column, value) for (column, value), number in counts.items() if column == groups[-1]]
    if not finest:
        return None
    number, column, value = min(finest, key=lambda item: (-item[0], item[2]))
    return column, value, number


def show_flips(
    baseline: RunEvidence, other: RunEvidence, flips: Sequence[Flip], *, index: int, max_cases: int = MAX_FLIPS
) -> Cases:
    """Choose flips, broken and mended ones in turn; `index` distinguishes the comparisons of a report."""
    rows = [{**flip.baseline, "kind": flip.kind, "flip": number} for number, flip in enumerate(flips)]
    items = []
    for row in _in_turn(rows, order=[BROKE, MENDED])[:max_cases]:
        flip = flips[int(str(row["flip"]))]
        answers = (
            _answer(baseline, flip.baseline, name=baseline.name),
            _answer(other, flip.other, name=other.name),
        )
        items.append(_case(row, kind=flip.kind, groups=baseline.groups, answers=answers))
    broke = sum(flip.kind == BROKE for flip in flips)
    return Cases(
        name=f"flip-cases-{index}",
        title="",
        items=tuple(items),
        note=(
            f"{plural(len(items), 'case')} of {plural(len(flips), 'flip')}: {broke} broke (right in {baseline.name}, "
            f"wrong in {other.name}), {len(flips) - broke} mended."
        ),
    )


def _in_turn(rows: Iterable[Row], *, order: Sequence[str]) -> list[Row]:
    """Take rows of each kind in turn; within a kind, pages that were not shown before come first."""
    waiting: dict[str, deque[Row]] = {kind: deque() for kind in order}
    repeated: dict[str, list[Row]] = defaultdict(list)
    shown: set[str] = set()
    for row in rows:
        kind, page = str(row["kind"]), str(row["cluster"])
        if page in shown:
            repeated[kind].append(row)
        else:
            shown.add(page)
            waiting[kind].append(row)
    for kind, queue in waiting.items():
        queue.extend(repeated[kind])
    taken: list[Row] = []
    while any(waiting.values()):
        taken += [queue.popleft() for queue in waiting.values() if queue]
    return taken


def _case(row: Row, *, kind: str, groups: Sequence[str], answers: tuple[Prediction, ...]) -> Case:
    return Case(
        key=str(row["key"]),
        tags=tuple(str(row[GROUP + group]) for group in groups if row.get(GROUP + group) is not None),
        images=tuple(_texts(row["images"])[:2]),
        question=cut(str(row["question"])),
        references=tuple(cut(reference) for reference in _texts(row["references"])[:5]),
        answers=answers,
        kind=kind,
        tone=answers[-1].tone,
    )


def _answers(run: RunEvidence, row: Row) -> tuple[Prediction, ...]:
    """Return the answer of a run, before it those of the members of its pipeline."""
    if run.ensemble is None:
        return (_answer(run, row, name=""),)
    compared = run.ensemble.stage
    told: list[Prediction | None] = []
    for stage in pipeline_of(run.spec).stages:
        models = [member for member in run.ensemble.members if member.asked.stage.id == stage.id]
        if stage.id == compared:
            told += [
                _told(run, row, f"{stage.id}: {each.name}", each.rows, each.scores) for each in run.ensemble.answering
            ]
            models = [member for member in models if member.asked.role != "member"]
        told += [_answer_of_model(run, row, member) for member in models]
    return (*(answer for answer in told if answer is not None), _answer(run, row, name="result"))


def _answer_of_model(run: RunEvidence, row: Row, member: MemberEvidence) -> Prediction | None:
    asked = member.asked
    role = "" if asked.role == "member" else f", {asked.role}"
    return _told(run, row, f"{asked.stage.id}: {asked.model.name}{role}", member.rows, None)


def _told(
    run: RunEvidence, row: Row, name: str, rows: polars.DataFrame, scores: polars.DataFrame | None
) -> Prediction | None:
    """Return what a model or a pipeline within this one answered to a sample; None where it was not asked."""
    given = next(rows.filter(polars.col("ordinal") == row["ordinal"]).iter_rows(named=True), None)
    if given is None:
        return None
    scored = scores.filter(polars.col("ordinal") == row["ordinal"])["value"].to_list() if scores is not None else []
    value = next(iter(scored), None)
    has_failed, metric = given["status"] != "ok", run.primary
    is_right = metric is not None and value is not None and value == metric.perfect
    return Prediction(
        run=name,
        spans=() if has_failed else compare_text(str(given["text"] or ""), _texts(row["references"])),
        tone="good" if is_right else "bad" if value is not None else "neutral",
        score=f"{metric.label} {write_number(value, 2)}" if metric is not None and value is not None else "",
        note=f"failed: {given['error_code'] or 'unknown'}" if has_failed else "",
    )


def _answer(run: RunEvidence, row: Row, *, name: str) -> Prediction:
    is_right = run.primary is not None and row["value"] == run.primary.perfect
    detail, value = detail_of(run), row["detail"]
    failed = row["status"] != "ok"
    notes = [f"failed: {row['error_code'] or 'unknown'}"] if failed else []
    if row["finish_reason"] == "length":
        notes.append(Mistake.CUT_OFF)
    tone: Tone = "good" if is_right else "bad"
    return Prediction(
        run=name,
        spans=() if failed else compare_text(str(row["text"] or ""), _texts(row["references"])),
        tone=tone,
        score=f"{detail.label} {write_number(value, 2)}" if isinstance(value, float) else "unscored",
        note=", ".join(notes),
    )


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
