"""Tests of the room of environments."""
