"""INDEX and SCORE jobs, on the CPU."""
