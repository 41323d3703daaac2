"""The vLLM adapter: vLLM's own OpenAI server, started with pinned arguments."""
