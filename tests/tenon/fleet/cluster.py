"""Nodes, NodeClaims and rows for tests of the live view."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tenon.apis import labels
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.rows import NodeRow, node_row
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord, ObjectRecord
from tests.worker.cache.objects import claim, node, running

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PRICES = Prices(
    on_demand={"m5.large": 0.1, "m5.xlarge": 0.2}, spot={("m5.large", "us-west-2a"): 0.03, ("m5.xlarge", "b"): 0.07}
)
DONE = ("Launched", "Registered", "Initialized")


def conditions(*types: str, **more: Any) -> list[dict[str, Any]]:
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return [{"type": type_, "status": "True", **since, **more} for type_ in types]


def node_labels(kind: str = "m5.large", zone: str = "us-west-2a", capacity: str = "on-demand") -> dict[str, str]:
    return {
        labels.NODEPOOL: "pool",
        labels.INSTANCE_TYPE: kind,
        labels.ZONE: zone,
        labels.CAPACITY_TYPE: capacity,
    }


def a_node(name: str = "n", *, meta: Any = None, cpu: str = "4", **more: str) -> NodeRecord:
    return node(name, cpu=cpu, meta={"labels": node_labels(**more), **(meta or {})})


def a_claim(
    name: str = "claim", *, done: tuple[str, ...] = DONE, others: Any = (), meta: Any = None, **options: Any
) -> ClaimRecord:
    status = {"conditions": [*conditions(*done), *others]}
    return claim(name, meta={"labels": node_labels(), **(meta or {})}, status=status, **options)


def a_pool(**spec: Any) -> ObjectRecord:
    return ObjectRecord.of({"metadata": {"name": "pool"}, "spec": json.loads(json.dumps(spec))})


def a_row(name: str = "n", **fields: Any) -> NodeRow:
    """The row of a live node of four CPU with a pod of one, with some other fields."""
    row = node_row(a_claim(f"claim-{name}", node_name=name), a_node(name), [running("p", name)], None, PRICES, NOW)
    return NodeRow(**{**{field: getattr(row, field) for field in NodeRow.__dataclass_fields__}, **fields})
