"""Compare load generators against an exactly timed server: the accuracy of their reports, and their cost."""
