"""Tests of the document datasets."""
