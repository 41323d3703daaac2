"""Conformance suites: what every plugin of a kind must hold, for its author's own tests; standard library only."""
