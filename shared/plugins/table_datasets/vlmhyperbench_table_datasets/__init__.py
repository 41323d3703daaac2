"""Datasets in tables of any format, whose columns are mapped to samples in YAML."""
