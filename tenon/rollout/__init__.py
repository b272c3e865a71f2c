"""Rollouts of new versions of nodes: what a version is, which one launches, and what may be replaced."""
