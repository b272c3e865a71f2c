"""Why the engine decided as it did: for pods that found no place, and for the type of each planned node."""
