"""Tests of the registry room."""
