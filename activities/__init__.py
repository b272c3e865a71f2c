"""DO: the only code that touches the world. Each activity is idempotent and fails with a typed error."""
