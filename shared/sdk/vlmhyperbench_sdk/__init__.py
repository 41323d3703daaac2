"""Contracts that plugin, adapter and shim authors import; standard library only."""
