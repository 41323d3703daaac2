"""The registry: YAML entries by kind, written by users, loaded strictly and resolved into pinned specs."""
