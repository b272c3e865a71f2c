"""Faults of a running sandbox: named, repeatable, and healed by the same name; for tests and by hand."""
