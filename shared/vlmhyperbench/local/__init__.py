"""The embedded stack: the same servers as in any deployment, started as child processes on this machine."""
