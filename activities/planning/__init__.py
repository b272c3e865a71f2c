"""Decisions on a live cluster: the activities that need the cluster cache, served by the cluster process alone."""
