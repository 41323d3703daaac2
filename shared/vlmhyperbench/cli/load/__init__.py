"""The command `load`: its flags in groups, what they ask for, and its results as text."""
