"""The rules of "may this node go, and why not", once: decisions, validation, events and explanations read one table."""
