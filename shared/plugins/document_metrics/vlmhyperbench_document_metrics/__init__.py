"""Metrics of structured documents: nested JSON, fields, item lists, tables."""

from vlmhyperbench_document_metrics.anls_star import AnlsStar
from vlmhyperbench_document_metrics.field_accuracy import FieldAccuracy
from vlmhyperbench_document_metrics.field_f1 import FieldF1
from vlmhyperbench_document_metrics.item_count import ItemCountAccuracy
from vlmhyperbench_document_metrics.teds import Teds

__all__ = ["AnlsStar", "FieldAccuracy", "FieldF1", "ItemCountAccuracy", "Teds"]
