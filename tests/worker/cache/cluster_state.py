"""A cluster state with a fixed time."""

from __future__ import annotations

from typing import Any

from worker.cache.state import ClusterState

NOW = 1_800_000_000.0
STATUS = {"capacity": {"cpu": "4", "nvidia.com/gpu": "1"}, "allocatable": {"cpu": "3500m", "nvidia.com/gpu": "1"}}


def state(**tables: list[Any]) -> ClusterState:
    cluster_state = ClusterState(clock=lambda: NOW)
    for name, records in tables.items():
        for record in records:
            getattr(cluster_state, name).on_event(record.key, record)
    return cluster_state
