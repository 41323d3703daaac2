"""Tests of the model's files."""
