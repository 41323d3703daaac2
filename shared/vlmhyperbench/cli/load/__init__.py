"""The command `load`: its flags in groups, the plan that they describe, and its results as text."""
