"""The report shows which levels of the ladder answers reach, unchanged and after declared repairs."""

from __future__ import annotations

from tests.shared.reports.builders import document_of, evidence, fact
from tests.shared.reports.reading import tables_of, words_of
from tests.support.wording import Wording
from vlmhyperbench.reports.document import Table
from vlmhyperbench.reports.sections.ladder import ladders
from vlmhyperbench_structure_metrics.structural_fidelity import StructuralFidelity

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
TRUTH = '{"total": 5}'
ANSWERS = [TRUTH, f"```json\n{TRUTH}\n```", '{"total": "5"}', "", "no"]


def _ladder() -> Table:
    rows = [fact(i, answer, TRUTH) for i, answer in enumerate(ANSWERS)]
    (table,) = ladders(evidence(rows, metrics=(StructuralFidelity(schema=SCHEMA),)))
    return table


def test_every_level_has_its_share_before_and_after_repair(wording: Wording) -> None:
    levels = {row[0].partition(" ")[0]: row[1:] for row in _ladder().rows}
    assert levels["L0"] == ("80.0\u00a0%", "")
    assert levels["L1"] == ("40.0\u00a0%", "60.0\u00a0%")
    assert levels["L3"] == ("20.0\u00a0%", "40.0\u00a0%")
    assert levels["L6"] == ("20.0\u00a0%", "40.0\u00a0%")
    wording(words_of(_ladder()))


def test_a_metric_without_levels_has_no_ladder() -> None:
    assert ladders(evidence()) == []
    assert ladders(evidence([], metrics=(StructuralFidelity(),))) == []


def test_the_ladder_stands_in_the_report() -> None:
    run = evidence([fact(0, TRUTH, TRUTH)], metrics=(StructuralFidelity(schema=SCHEMA),))
    assert "ladder-structural-fidelity" in tables_of(document_of(run))
