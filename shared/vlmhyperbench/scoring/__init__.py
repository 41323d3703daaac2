"""From answers to measures: parse an answer, attribute a missing one to its cause, and compute its metrics."""
