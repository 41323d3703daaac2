"""Parity of two runs: how many of their answers are the same text, and where the others differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.parity import Parity
from vlmhyperbench.analysis.parity import parity as compare_texts
from vlmhyperbench.reports.document import Block, Column, Estimate, Section, Table, write_number
from vlmhyperbench.reports.sections.differences import MAX_DRAWN_RUNS, Paired
from vlmhyperbench.reports.sections.wording import percent, plural
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.evidence import RunEvidence

MAX_ROWS = 24


def parity_of(baseline: RunEvidence, run: RunEvidence) -> Parity | None:
    """Compare the texts of two runs of one data set; None if one of them has no scored answer."""
    if baseline.primary is None or run.primary is None:
        return None
    return compare_texts(answers_of(baseline, baseline.primary), answers_of(run, run.primary))


def parities_of(paired: Sequence[Paired]) -> dict[str, Parity]:
    """Return id of a run → its parity with its baseline, of runs whose answers can be paired."""
    compared = {pair.run.summary.id: parity_of(pair.baseline.evidence, pair.run.evidence) for pair in paired}
    return {run: parity for run, parity in compared.items() if parity is not None and parity.pairs}


def parity_section(paired: Sequence[Paired], parities: Mapping[str, Parity]) -> Section | None:
    """Return the section of a comparison; None if no answers can be paired.

    Args:
        paired: Runs with their baselines.
        parities: What `parities_of` returns for them.
    """
    known = [(pair.run.name, parity) for pair in paired if (parity := parities.get(pair.run.summary.id)) is not None]
    if not known:
        return None
    differing = (divergences(name, parity) for name, parity in known[:MAX_DRAWN_RUNS])
    blocks: list[Block] = [parity_table(known), *(table for table in differing if table is not None)]
    return Section(
        name="parity",
        title="Parity of the answers",
        lead=" ".join(f"{name}: {parity_sentence(parity)}" for name, parity in known[:MAX_DRAWN_RUNS]),
        blocks=tuple(blocks),
    )


def parity_sentence(parity: Parity) -> str:
    """Say how many answers are the same text, and how many differences change the score."""
    same = f"{parity.same} of {plural(parity.pairs, 'answer')} ({percent(parity.share)}) are the same text"
    if not parity.divergences:
        return f"{same}."
    return f"{same}; {plural(parity.rescored, 'difference changes', 'differences change')} the score."


def parity_table(runs: Sequence[tuple[str, Parity]]) -> Table:
    """Return a table with a row for each run."""
    titles = ("other text, same score", "other score", "first difference at word (median)")
    return Table(
        name="parity",
        title="",
        columns=(
            Column(title="run"),
            Column(title="answers", kind="number"),
            Column(title="same text", kind="number"),
            Column(title="share (95 % interval)", kind="estimate"),
            *(Column(title=title, kind="number") for title in titles),
        ),
        rows=tuple(
            (
                name,
                parity.pairs,
                parity.same,
                share_of(parity),
                len(parity.divergences) - parity.rescored,
                parity.rescored,
                write_number(parity.median_word, 0),
            )
            for name, parity in runs
        ),
        note=(
            "On the answers that both runs have: whole texts, before an extractor reads them. Documents are the units "
            "of the intervals."
        ),
    )


def share_of(parity: Parity) -> Estimate:
    """Return the share of equal texts, with its interval."""
    interval = parity.interval
    return Estimate(
        value=parity.share, low=interval.low if interval else None, high=interval.high if interval else None, digits=3
    )


def divergences(name: str, parity: Parity) -> Table | None:
    """List where answers differ, those that change the score first; None if none differs."""
    if not parity.divergences:
        return None
    ordered = sorted(parity.divergences, key=lambda divergence: not divergence.changes_score)[:MAX_ROWS]
    return Table(
        name=f"parity-{'-'.join(name.split())}",
        title=f"Where {name} differs from the baseline",
        columns=(
            Column(title="sample"),
            Column(title="at word", kind="number"),
            Column(title="baseline continues"),
            Column(title="other continues"),
            Column(title="score"),
        ),
        rows=tuple(
            (
                divergence.key,
                divergence.at_word,
                divergence.baseline,
                divergence.other,
                "changes" if divergence.changes_score else "same",
            )
            for divergence in ordered
        ),
        note=f"{len(ordered)} of {plural(len(parity.divergences), 'answer')} that differ.",
        is_collapsed=True,
    )
