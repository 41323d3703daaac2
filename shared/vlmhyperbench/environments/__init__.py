"""Environments of engines: built from pins, cached by what was resolved, used under a lock."""
