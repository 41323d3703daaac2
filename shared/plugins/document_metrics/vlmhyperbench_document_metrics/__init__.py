"""Metrics of structured documents: nested JSON, fields, item lists, tables."""

from vlmhyperbench_document_metrics.anls_star import AnlsStar

__all__ = ["AnlsStar"]
