"""Conformance suites, one per kind of plugin, for the authors' own tests; standard library only."""
