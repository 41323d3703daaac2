"""The llama.cpp adapter and the shim that serves it through xllamacpp."""
