"""Judge load generators, ours and others, by an exactly timed server: what they report, and what reporting costs."""
