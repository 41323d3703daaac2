"""The shared library of VLMHyperBench; importing it imports nothing else."""
