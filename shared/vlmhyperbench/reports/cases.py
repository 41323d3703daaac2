"""Choose the samples worth reading: mistakes of one run, flips between two. The same facts give the same choice."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY
from vlmhyperbench.reports.answers import answers_of, wrong_answers
from vlmhyperbench.reports.document import Answer, Case, Cases, Tone, compare_text, cut, write_number
from vlmhyperbench.reports.evidence import GROUP, RunEvidence
from vlmhyperbench.reports.wording import plural

MAX_CASES = 24
MAX_FLIPS = 18
BROKE = "broke"
MENDED = "mended"

Row = Mapping[str, object]


def mistake_counts(wrong: polars.DataFrame) -> dict[str, int]:
    """Count kinds of mistakes, the most frequent first."""
    return dict(sorted(Counter(wrong["kind"].to_list()).items(), key=lambda item: (-item[1], item[0])))


def mistakes(run: RunEvidence) -> Cases:
    """Choose wrong answers: every kind in turn, the most frequent first, a new page each time while there are some."""
    wrong = wrong_answers(run)
    rows = _in_turn(wrong.iter_rows(named=True), order=list(mistake_counts(wrong)))[:MAX_CASES]
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


def flips(baseline: RunEvidence, other: RunEvidence, *, names: tuple[str, str]) -> Cases | None:
    """Choose answers that are right in one run and wrong in the other; None where the runs cannot be paired."""
    if baseline.primary is None or other.primary is None or baseline.primary.perfect is None:
        return None
    perfect = baseline.primary.perfect
    first, second = answers_of(baseline, baseline.primary), answers_of(other, other.primary)
    rows_of = {tuple(row[k] for k in PAIR_KEY): row for row in second.iter_rows(named=True)}
    found: list[dict[str, object]] = []
    pairs: list[tuple[Row, Row]] = []
    for row in first.iter_rows(named=True):
        theirs = rows_of.get(tuple(row[k] for k in PAIR_KEY))
        if theirs is None or row["value"] is None or theirs["value"] is None:
            continue
        was_right, is_right = row["value"] == perfect, theirs["value"] == perfect
        if was_right != is_right:
            found.append({**row, "kind": BROKE if was_right else MENDED, "place": len(pairs)})
            pairs.append((row, theirs))
    chosen = _in_turn(found, order=[BROKE, MENDED])[:MAX_FLIPS]
    items = tuple(
        _case(
            row,
            kind=str(row["kind"]),
            groups=baseline.groups,
            answers=(
                _answer(baseline, pairs[_place(row)][0], name=names[0]),
                _answer(other, pairs[_place(row)][1], name=names[1]),
            ),
        )
        for row in chosen
    )
    broke = sum(row["kind"] == BROKE for row in found)
    return Cases(
        name="flips",
        title="",
        items=items,
        note=(
            f"{plural(len(items), 'case')} of {plural(len(found), 'flip')}: {broke} broke (right in {names[0]}, wrong "
            f"in {names[1]}), {len(found) - broke} were mended."
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
    )


def _answer(run: RunEvidence, row: Row, *, name: str) -> Answer:
    primary = run.primary
    assert primary is not None, "cases are chosen by the primary metric"  # noqa: S101
    value = row["value"]
    is_right = value == primary.perfect
    failed = row["status"] != "ok"
    notes = [f"failed: {row['error_code'] or 'unknown'}"] if failed else []
    if row["finish_reason"] == "length":
        notes.append("cut off at the token limit")
    tone: Tone = "good" if is_right else "bad"
    return Answer(
        run=name,
        spans=() if failed else compare_text(str(row["text"] or ""), _texts(row["references"])),
        tone=tone,
        score="unscored" if not isinstance(value, float) else f"{primary.label} {write_number(value, 2)}",
        note=", ".join(notes),
    )


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _place(row: Row) -> int:
    place = row["place"]
    assert isinstance(place, int)  # noqa: S101 -- set above; narrows the type
    return place
