"""A simulated engine with declared timing: an exactly timed server, never chosen silently."""
