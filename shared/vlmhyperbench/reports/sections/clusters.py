"""Count wrong answers that are wrong in the same way, which one correction might repair together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import polars

from vlmhyperbench.analysis.mistakes import Mistake
from vlmhyperbench.analysis.signatures import edit_signature
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table, write_number
from vlmhyperbench.reports.sections.wording import group_title, percent, plural
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence

MAX_CLUSTERS = 12
MAX_COLUMNS = 2
"""Maximum number of group columns; by more of them most clusters would have a single answer."""
_EXAMPLE = 80
_NAMED = {Mistake.WORDY, Mistake.PARTIAL, Mistake.NEAR, Mistake.DIFFERENT}


def cluster_table(run: RunEvidence, wrong: polars.DataFrame) -> Table | None:
    """Return a table of the largest clusters of the same kind of mistake, the same edits and the same group.

    The first answer of a cluster, in the run's order, is its example. None if no two answers are in one cluster.
    """
    groups = run.groups[:MAX_COLUMNS]
    clusters: dict[tuple[str, ...], list[Mapping[str, object]]] = defaultdict(list)
    columns = [GROUP + group for group in groups]
    read = wrong.select("kind", "text", "references", "key", *columns)
    for row in read.iter_rows(named=True):
        clusters[(str(row["kind"]), _signature(row), *_group(row, groups))].append(row)
    several = sorted((key for key in clusters if len(clusters[key]) > 1), key=lambda key: (-len(clusters[key]), key))
    if not several:
        return None
    group_sizes = Counter(_group(row, groups) for row in run.facts.select(columns).iter_rows(named=True))
    shown = several[:MAX_CLUSTERS]
    smaller = plural(len(clusters) - len(shown), "smaller one is", "smaller ones are")
    covered = sum(len(clusters[key]) for key in shown)
    rows: list[tuple[Cell, ...]] = []
    for key in shown:
        kind, signature, *group = key
        members = clusters[key]
        rows.append(
            (
                kind,
                signature or "–",
                *(value or "–" for value in group),
                len(members),
                _percentage(len(members), wrong.height),
                _percentage(len(members), group_sizes[tuple(group)] if groups else run.facts.height),
                *_example(members[0]),
            )
        )
    return Table(
        name="clusters",
        title="Largest clusters of mistakes",
        columns=(
            Column(title="kind"),
            Column(title="differs by"),
            *(Column(title=group_title(group)) for group in groups),
            Column(title="wrong answers", kind="number"),
            Column(title="of all wrong ones", kind="number"),
            Column(title="of the group's answers", kind="number"),
            Column(title="expected, for example", kind="code"),
            Column(title="answered", kind="code"),
            Column(title="sample", kind="code"),
        ),
        rows=tuple(rows),
        note=(
            "The answers of a cluster have the same kind of mistake, the same edits and the same group. These hold "
            f"{write_number(covered, 0)} of {plural(wrong.height, 'wrong answer')} "
            f"({percent(covered / wrong.height, digits=0)}); {smaller} not shown."
        ),
        is_collapsed=True,
    )


def _signature(row: Mapping[str, object]) -> str:
    references = row["references"]
    if row["kind"] not in _NAMED or not isinstance(references, list):
        return ""
    return edit_signature(str(row["text"] or ""), [str(reference) for reference in references])


def _group(row: Mapping[str, object], groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("" if row[GROUP + group] is None else str(row[GROUP + group]) for group in groups)


def _percentage(count: int, total: int) -> Estimate:
    return Estimate(value=100 * count / total if total else None, digits=1, suffix=" %")


def _example(row: Mapping[str, object]) -> tuple[str, str, str]:
    references = row["references"]
    expected = str(references[0]) if isinstance(references, list) and references else ""
    return _short(expected), _short(str(row["text"] or "")), str(row["key"])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXAMPLE else f"{line[: _EXAMPLE - 1]}…"
