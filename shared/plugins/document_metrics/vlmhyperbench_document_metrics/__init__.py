"""Metrics of structured documents: nested JSON, fields, item lists, tables."""
