"""What runs inside of vLLM's processes: the start of its server, and the rule against repetition."""
