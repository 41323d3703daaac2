"""What people write: YAML entries by kind, loaded strictly and resolved into pinned specs."""
