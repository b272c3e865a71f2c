"""What an autoscaler did to running pods and nodes, from the API server's audit log, which no autoscaler writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Disturbances:
    """Counts of a run."""

    pods: int
    """Pods that were evicted."""
    nodes: int
    """NodeClaims that were deleted."""


def read_disturbances(log: Path) -> Disturbances:
    """Count the disturbances of an audit log. Its last line may not be complete yet."""
    with log.open() as lines:
        return count_disturbances(line for line in lines if line.endswith("\n"))


def count_disturbances(lines: Iterable[str]) -> Disturbances:
    """Count accepted evictions and deletions, each object once: a retry disturbs nothing more."""
    pods: set[tuple[str, str]] = set()
    nodes: set[str] = set()
    for line in lines:
        if '"eviction"' not in line and '"nodeclaims"' not in line:
            continue
        event = json.loads(line)
        reference = event.get("objectRef") or {}
        if event["stage"] != "ResponseComplete" or event["responseStatus"]["code"] >= 400:
            continue
        if event["verb"] == "create" and reference.get("subresource") == "eviction":
            pods.add((reference["namespace"], reference["name"]))
        elif event["verb"] == "delete" and reference.get("resource") == "nodeclaims":
            nodes.add(reference["name"])
    return Disturbances(len(pods), len(nodes))
