"""The report shows how far up the ladder answers come, as they stand and after declared repairs."""

from __future__ import annotations

from tests.shared.reports.builders import document_of, evidence, fact
from vlmhyperbench.reports.document import Table
from vlmhyperbench.reports.sections.ladder import ladders
from vlmhyperbench_structure_metrics import StructuralFidelity

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
TRUTH = '{"total": 5}'
ANSWERS = [TRUTH, f"```json\n{TRUTH}\n```", '{"total": "5"}', "", "no"]


def _ladder() -> Table:
    rows = [fact(i, answer, TRUTH) for i, answer in enumerate(ANSWERS)]
    (table,) = ladders(evidence(rows, metrics=(StructuralFidelity(schema=SCHEMA),)))
    return table


def test_every_level_has_its_share_before_and_after_repair() -> None:
    levels = {row[0]: (row[1], row[2]) for row in _ladder().rows}
    assert levels["L0 not empty"] == ("80.0\u00a0%", "")
    assert levels["L1 strict JSON; L2 after repair"] == ("40.0\u00a0%", "60.0\u00a0%")
    assert levels["L3 keeps to its schema"] == ("20.0\u00a0%", "40.0\u00a0%")
    assert levels["L6 whole document exact"] == ("20.0\u00a0%", "40.0\u00a0%")


def test_the_note_says_over_what() -> None:
    note = _ladder().note
    assert note.startswith("Over 5 answers, 5 with a schema; L4 to L6 over the 5 whose reference is JSON.")


def test_a_metric_without_levels_has_no_ladder() -> None:
    assert ladders(evidence()) == []
    assert ladders(evidence([], metrics=(StructuralFidelity(),))) == []


def test_the_ladder_stands_in_the_report() -> None:
    run = evidence([fact(0, TRUTH, TRUTH)], metrics=(StructuralFidelity(schema=SCHEMA),))
    blocks = [
        block.name for section in document_of(run).sections for block in section.blocks if isinstance(block, Table)
    ]
    assert "ladder-structural-fidelity" in blocks
