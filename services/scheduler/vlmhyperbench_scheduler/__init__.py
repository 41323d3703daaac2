"""The loop around a pure decision: assigns, reaps, advances."""
