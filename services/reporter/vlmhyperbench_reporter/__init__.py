"""REPORT jobs of a run and of an experiment."""
