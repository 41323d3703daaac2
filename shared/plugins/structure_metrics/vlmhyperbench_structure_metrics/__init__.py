"""How well an answer keeps a structure: the ladder of JSON answers, the order of pages."""

from vlmhyperbench_structure_metrics.ladder import Ladder, ladder_of
from vlmhyperbench_structure_metrics.ordering import Ordering
from vlmhyperbench_structure_metrics.structural_fidelity import StructuralFidelity

__all__ = ["Ladder", "Ordering", "StructuralFidelity", "ladder_of"]
