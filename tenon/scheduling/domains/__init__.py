"""Places pods with rules between pods: chooses a domain such as a zone, then a node in it."""
