"""The server of one model: it runs in the engine's environment, with torch, transformers and the standard library."""
