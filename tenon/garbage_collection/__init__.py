"""Finds what Kubernetes, EC2 and Temporal disagree about, and decides what to do with it."""
