"""Make the shared fixtures visible to every test."""

from __future__ import annotations

pytest_plugins = ["tests.support.servers", "tests.support.stack"]
