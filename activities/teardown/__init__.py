"""The steps of the end of a cluster. Each looks up what is there, so that it can be repeated."""
