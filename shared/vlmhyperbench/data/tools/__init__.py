"""Programs that run in the environments of recipes' tools; nothing here imports the platform."""
