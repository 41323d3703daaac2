"""Choose the samples worth reading: mistakes of one run, flips between two. The same facts give the same choice."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY
from vlmhyperbench.reports.document import Answer, Case, Cases, Tone, compare_text, cut, write_number
from vlmhyperbench.reports.sections.answers import detail_of, with_detail
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric

MAX_CASES = 24
MAX_FLIPS = 24
"""Over all comparisons of a report: it may show thirty pages."""
BROKE = "broke"
MENDED = "mended"

_SHOWN = (
    *("cluster", "images", "question", "references", "text"),
    *("status", "error_code", "finish_reason", "value", "detail"),
)
"""What a case shows of a row, beside its key and groups."""

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
    """Choose wrong answers: every kind in turn, the most frequent first, a new page each time while there are some.

    `wrong` is what `wrong_answers` returns.
    """
    short = wrong.select("kind", "cluster").with_row_index("place")
    chosen = _in_turn(short.iter_rows(named=True), order=list(mistake_counts(wrong)))[:MAX_CASES]
    places = polars.Series([row["place"] for row in chosen], dtype=polars.UInt32)
    rows = list(with_detail(run, wrong[places]).iter_rows(named=True))
    return Cases(
        name="mistakes",
        title="",
        items=tuple(
            _case(row, kind=str(row["kind"]), groups=run.groups, answers=(_answer(run, row, name=""),)) for row in rows
        ),
        note=(
            f"{plural(len(rows), 'case')} of {plural(wrong.height, 'wrong answer')}, chosen in turn from every kind, "
            "on different pages where possible. Struck out: characters that are missing; marked: characters that do "
            "not belong there."
        ),
    )


def find_flips(baseline: RunEvidence, other: RunEvidence) -> list[Flip]:
    """Return the answers that are right in one run and wrong in the other, in the baseline's order."""
    if baseline.primary is None or other.primary is None or baseline.primary.perfect is None:
        return []
    if not baseline.primary.identity.is_same(other.primary.identity):
        return []
    perfect = baseline.primary.perfect
    ours, theirs = _scored(baseline, baseline.primary), _scored(other, other.primary)
    is_right = (polars.col("value") == perfect).alias("is_right")
    places = theirs.with_row_index("their place").select(*PAIR_KEY, "their place", is_right.alias("theirs is right"))
    pairs = (
        ours.with_row_index("place")
        .select(*PAIR_KEY, "place", is_right)
        .join(places.unique(PAIR_KEY, keep="last"), on=PAIR_KEY, maintain_order="left")
        .filter(polars.col("is_right") != polars.col("theirs is right"))
    )
    both = zip(
        ours[pairs["place"]].iter_rows(named=True), theirs[pairs["their place"]].iter_rows(named=True), strict=True
    )
    return [
        Flip(kind=BROKE if was_right else MENDED, baseline=own, other=their)
        for was_right, (own, their) in zip(pairs["is_right"], both, strict=True)
    ]


def _scored(run: RunEvidence, metric: ScoredMetric) -> polars.DataFrame:
    """The answers of a run that have a value, with what a case shows of them."""
    shown = [*PAIR_KEY, *_SHOWN, *(GROUP + group for group in run.groups)]
    return with_detail(run, answers_of(run, metric)).filter(polars.col("value").is_not_null()).select(*shown)


def most_flipped(flips: Sequence[Flip], groups: Sequence[str]) -> tuple[str, str, int] | None:
    """Return the group (column, value) that most flips belong to, and how many; the last, finest column counts."""
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
    baseline: RunEvidence, other: RunEvidence, flips: Sequence[Flip], *, index: int, most: int = MAX_FLIPS
) -> Cases:
    """Choose at most `most` flips: broken and mended ones in turn; `index` keeps several comparisons apart."""
    rows = [{**flip.baseline, "kind": flip.kind, "place": place} for place, flip in enumerate(flips)]
    items = []
    for row in _in_turn(rows, order=[BROKE, MENDED])[:most]:
        flip = flips[int(str(row["place"]))]
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
    """Take rows kind by kind in turn; within a kind, pages that were not shown yet come first."""
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


def _case(row: Row, *, kind: str, groups: Sequence[str], answers: tuple[Answer, ...]) -> Case:
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


def _answer(run: RunEvidence, row: Row, *, name: str) -> Answer:
    is_right = run.primary is not None and row["value"] == run.primary.perfect
    detail, value = detail_of(run), row["detail"]
    failed = row["status"] != "ok"
    notes = [f"failed: {row['error_code'] or 'unknown'}"] if failed else []
    if row["finish_reason"] == "length":
        notes.append("cut off at the token limit")
    tone: Tone = "good" if is_right else "bad"
    return Answer(
        run=name,
        spans=() if failed else compare_text(str(row["text"] or ""), _texts(row["references"])),
        tone=tone,
        score=f"{detail.label} {write_number(value, 2)}" if isinstance(value, float) else "unscored",
        note=", ".join(notes),
    )


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
