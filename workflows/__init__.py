"""Temporal workflows: the layer that keeps state. They wait, ask `tenon` what to do, and run activities.

Workflows contain no decision rules of their own.
"""
