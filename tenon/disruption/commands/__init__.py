"""Disruption commands once they are decided: their messages, and what they may hold."""
