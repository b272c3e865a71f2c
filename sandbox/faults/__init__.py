"""Faults for a running sandbox, for tests and manual use. Each is repeatable, and is applied and healed by its name."""
