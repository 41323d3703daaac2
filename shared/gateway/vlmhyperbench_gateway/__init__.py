"""One gateway in front of one engine: load, unload, status and OpenAI-compatible chat."""
