"""Turns manifests into a scheduling problem, and a plan into the output of ``tenon simulate``."""
