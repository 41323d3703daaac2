"""The embedded stack: the same servers as everywhere, started as children on this machine."""
