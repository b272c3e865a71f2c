"""Reads counters of Prometheus."""

from __future__ import annotations

from prometheus_client import REGISTRY

PREFIX = "karpenter_voluntary_disruption_"


def counted(name: str, **labels: str) -> float:
    """The value of a series; 0 if it does not exist yet."""
    return REGISTRY.get_sample_value(name, labels) or 0.0
