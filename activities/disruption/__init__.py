"""The steps of disruption: looking for commands, and carrying them out."""
