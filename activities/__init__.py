"""Temporal activities: the layer that calls Kubernetes and AWS. Each activity is idempotent and raises typed errors."""
