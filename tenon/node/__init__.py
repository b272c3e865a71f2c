"""The lifecycle of a node as a pure state machine, and the messages that drive it."""
