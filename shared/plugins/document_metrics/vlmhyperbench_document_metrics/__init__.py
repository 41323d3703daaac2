"""Metrics of structured documents: nested JSON, fields, item lists, tables."""

from vlmhyperbench_document_metrics.anls_star import AnlsStar
from vlmhyperbench_document_metrics.teds import Teds

__all__ = ["AnlsStar", "Teds"]
