"""What operators see of a running platform: the table of metrics, what each process counts, and traces of runs."""
