"""The shape that every worker shares: a supervisor, its doorbell, claims and the children that do the work."""
