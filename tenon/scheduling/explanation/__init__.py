"""Explains the engine's decisions: why pods have no place, and why each planned node has its type."""
