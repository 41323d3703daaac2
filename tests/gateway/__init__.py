"""Tests of the gateway: its parts, and every adapter behind a real one."""
