"""Packages of one's own from templates: a metric, a dataset, a prompt, a backend, a report."""
