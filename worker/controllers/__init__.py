"""Controllers. Each watches some kinds in the cluster cache and reconciles what changed. `base` holds what
they share.
"""
