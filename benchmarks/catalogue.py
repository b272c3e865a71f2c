"""Instance types for the scheduling benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli.simulating import builtin
from tenon.apis import labels
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.resources import parse_resources
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.model import InstanceType, Pool

ZONES = ("test-zone-1", "test-zone-2", "test-zone-3")
OFFERS = (
    (labels.SPOT, ZONES[0]),
    (labels.SPOT, ZONES[1]),
    (labels.ON_DEMAND, ZONES[0]),
    (labels.ON_DEMAND, ZONES[1]),
    (labels.ON_DEMAND, ZONES[2]),
)


def reference_document(count: int = 400) -> dict[str, Any]:
    """Return upstream's benchmark catalogue, 1 to ``count`` CPU, in the format of ``tenon simulate --catalog``."""
    return {"instanceTypes": [_entry(cpu) for cpu in range(1, count + 1)]}


def reference_pool(count: int = 400) -> Pool:
    """Return upstream's NodePool, without requirements and with limits that are never reached."""
    limits = parse_resources({"cpu": "10000000", "memory": "10000000Gi"})
    return Pool("default", Requirements(), parse_catalog(reference_document(count)), limits=limits)


def ec2_pool(catalogue: Path | None = None) -> Pool:
    """Return a NodePool of amd64 on-demand types from a catalogue file, or from the built-in EC2 catalogue."""
    document = json.loads(catalogue.read_text()) if catalogue else builtin.load()
    types: list[InstanceType] = parse_catalog(document)
    arches = ((labels.ARCH, "amd64"), (labels.OS, "linux"), (labels.CAPACITY_TYPE, labels.ON_DEMAND))
    return Pool("default", Requirements.of(*(Requirement.new(key, IN, (value,)) for key, value in arches)), types)


def _entry(cpu: int) -> dict[str, Any]:
    gib = 2 * cpu
    price = 0.1 * cpu + 0.1 * gib * 2**30 / 1e9
    return {
        "name": f"fake-it-{cpu - 1}",
        "requirements": {labels.ARCH: ["amd64"], labels.OS: ["darwin", "linux", "windows"]},
        "capacity": {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": str(10 * cpu)},
        "overhead": {"cpu": "100m", "memory": "10Mi"},
        "offerings": [{"zone": zone, "capacityType": kind, "price": price} for kind, zone in OFFERS],
    }
