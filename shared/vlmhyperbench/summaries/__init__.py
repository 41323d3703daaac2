"""The summary of a run: one typed value, computed once from facts, measures and spec, and stored."""
