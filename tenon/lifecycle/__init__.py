"""A node's life as a pure state machine, and the messages that drive it."""
