"""Writes the record: `writer` is what activities need, `channel` keeps the record from delaying them, and each sink is
a place where entries go.
"""
