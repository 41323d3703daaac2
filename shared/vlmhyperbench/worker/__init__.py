"""What all workers share: a supervisor, its doorbell, claims, and the child processes that do the work."""
