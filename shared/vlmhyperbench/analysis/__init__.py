"""Statistics, comparison and figures: pure functions of values. Importing the package itself costs nothing."""
