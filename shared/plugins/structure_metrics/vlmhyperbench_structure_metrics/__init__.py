"""Metrics of structure: the ladder of JSON answers, the order of pages."""
