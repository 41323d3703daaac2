"""One supervisor for the embedded stack: it starts every process, restarts what dies and stops them in order."""
