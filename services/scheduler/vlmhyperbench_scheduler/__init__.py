"""The scheduler: a loop that ends expired leases, advances runs and assigns jobs."""
