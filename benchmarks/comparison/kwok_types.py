"""Reads the instance types of upstream's KWOK provider, because a repack must use the types that upstream has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cluster import Object
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.provisioning.pools import scheduling_pool
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.model import InstanceType, Pool

FILE = "kwok/cloudprovider/instance_types.json"
OVERHEAD = {"cpu": "100m", "memory": "10Mi"}
"""What the provider's `newInstanceType` reserves on each node."""
DEFAULT_PODS = "110"
CPU, MEMORY = "karpenter.kwok.sh/instance-cpu", "karpenter.kwok.sh/instance-memory"


def pool_of(body: Object, module: Path) -> Pool:
    """Return a NodePool as the engine sees it, with the instance types that the module ships."""
    types = instance_types(json.loads((module / FILE).read_text()))
    return scheduling_pool(NodePool.model_validate(body), types, {})


def instance_types(entries: Iterable[Mapping[str, Any]]) -> list[InstanceType]:
    """Return the types of the provider's JSON list."""
    return parse_catalog({"instanceTypes": [_entry(entry) for entry in entries]})


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    resources = entry["resources"]
    return {
        "name": entry["name"],
        "requirements": {
            labels.ARCH: [entry["architecture"]],
            labels.OS: entry["operatingSystems"],
            CPU: [resources["cpu"]],
            MEMORY: [resources["memory"]],
        },
        "capacity": {"pods": DEFAULT_PODS, **resources},
        "overhead": OVERHEAD,
        "offerings": [_offering(offering) for offering in entry["offerings"]],
    }


def _offering(offering: Mapping[str, Any]) -> dict[str, Any]:
    values = {term["key"]: term["values"][0] for term in offering["Requirements"]}
    return {
        "zone": values[labels.ZONE],
        "capacityType": values[labels.CAPACITY_TYPE],
        "price": offering["Price"],
    }
