"""Show how alike the answers of two runs are, word for word: parity between engines, precisions or versions."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.parity import Parity
from vlmhyperbench.analysis.parity import parity as compare_texts
from vlmhyperbench.reports.document import Block, Column, Section, Table, write_number
from vlmhyperbench.reports.sections.differences import Paired
from vlmhyperbench.reports.sections.wording import percent, plural
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.evidence import RunEvidence

MAX_ROWS = 24


def parity_of(baseline: RunEvidence, run: RunEvidence) -> Parity | None:
    """Compare the texts of two runs of one data set, or None where one of them scored nothing."""
    if baseline.primary is None or run.primary is None:
        return None
    return compare_texts(answers_of(baseline, baseline.primary), answers_of(run, run.primary))


def parity_section(paired: Sequence[Paired]) -> Section | None:
    """Return the section of a comparison; None where no answers can be paired."""
    compared = [(pair.run.name, parity_of(pair.baseline.evidence, pair.run.evidence)) for pair in paired]
    found = [(name, parity) for name, parity in compared if parity is not None and parity.pairs]
    if not found:
        return None
    apart = (divergences(name, parity) for name, parity in found)
    blocks: list[Block] = [parity_table(found), *(table for table in apart if table is not None)]
    return Section(
        name="parity",
        title="Parity of the answers",
        lead=" ".join(f"{name}: {say(parity)}" for name, parity in found),
        blocks=tuple(blocks),
    )


def say(parity: Parity) -> str:
    """Say in a sentence how alike they are."""
    share = percent(parity.same / parity.pairs if parity.pairs else None)
    said = f"{parity.same} of {plural(parity.pairs, 'answer')} ({share}) are the same text"
    if not parity.divergences:
        return f"{said}."
    return f"{said}; {plural(parity.rescored, 'difference changes', 'differences change')} the score."


def parity_table(found: Sequence[tuple[str, Parity]]) -> Table:
    """Return one row per run."""
    titles = ("answers", "same text", "other text, same score", "other score", "first difference at word (median)")
    return Table(
        name="parity",
        title="",
        columns=(Column(title="run"), *(Column(title=title, kind="number") for title in titles)),
        rows=tuple(
            (
                name,
                parity.pairs,
                f"{parity.same} ({percent(parity.same / parity.pairs if parity.pairs else None)})",
                len(parity.divergences) - parity.rescored,
                parity.rescored,
                write_number(parity.median_word, 0),
            )
            for name, parity in found
        ),
        note="On the answers that both runs have, character for character, before anything is read out of them.",
    )


def divergences(name: str, parity: Parity) -> Table | None:
    """List where answers part, those that change the score first; None where none does."""
    if not parity.divergences:
        return None
    ordered = sorted(parity.divergences, key=lambda found: not found.changes_score)[:MAX_ROWS]
    return Table(
        name=f"parity-{'-'.join(name.split())}",
        title=f"Where {name} parts from the baseline",
        columns=(
            Column(title="sample"),
            Column(title="at word", kind="number"),
            Column(title="baseline goes on"),
            Column(title="other goes on"),
            Column(title="score"),
        ),
        rows=tuple(
            (
                found.key,
                found.at_word,
                found.baseline,
                found.other,
                "changes" if found.changes_score else "same",
            )
            for found in ordered
        ),
        note=f"{plural(len(ordered), 'answer')} of {plural(len(parity.divergences), 'answer')}.",
        is_collapsed=True,
    )
