"""Instances and entries of the record for tests of cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tenon.cost.attribution import Measurement, measurement_of
from tenon.cost.bill import Lifetime
from tenon.money import nanos
from tenon.record.entries import CostEntry, CostRow, LaunchEntry, RecordedNode, RemovalEntry

T0 = datetime(2026, 1, 2, 12, tzinfo=UTC)


def a_lifetime(instance: str = "i-1", **fields: Any) -> Lifetime:
    defaults: dict[str, Any] = {
        "claim": f"claim-{instance}",
        "node": f"node-{instance}",
        "pool": "pool",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": "on-demand",
        "price": nanos(0.36),
        "launched_at": T0,
    }
    return Lifetime(instance=instance, **(defaults | fields))


def _facts(instance: str, claim: str, price: float, **fields: Any) -> RecordedNode:
    defaults: dict[str, Any] = {
        "pool": "pool",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": "on-demand",
    }
    return RecordedNode(claim=claim or f"claim-{instance}", instance=instance, price=price, **(defaults | fields))


def a_launch(
    instance: str, *, claim: str = "", price: float = 0.36, launched_at: datetime = T0, **fields: Any
) -> LaunchEntry:
    facts = _facts(instance, claim, price, **fields)
    return LaunchEntry(id=f"launch/{instance}", at=launched_at, cluster="test", facts=facts, launched_at=launched_at)


def a_removal(
    instance: str,
    *,
    ended_at: datetime,
    claim: str = "",
    price: float = 0.36,
    launched_at: datetime | None = T0,
    stopped: str = "",
    **fields: Any,
) -> RemovalEntry:
    return RemovalEntry(
        id=f"removal/{instance}",
        at=ended_at,
        cluster="test",
        facts=_facts(instance, claim, price, **fields),
        reason="Empty",
        launched_at=launched_at,
        terminated_at=ended_at,
        stopped=stopped,
    )


def a_row(
    namespace: str = "shop", cost: float = 1.0, *, pool: str = "pool", of: str = "pods", **fields: Any
) -> CostRow:
    return CostRow(pool=pool, namespace=namespace, of=of, cost=cost, **fields)


def an_entry(since: datetime, until: datetime, *rows: CostRow, lower_bound: float | None = None) -> CostEntry:
    own = list(rows)
    name = f"cost/{since}/{until}"
    return CostEntry(id=name, at=until, cluster="test", since=since, samples=1, rows=own, lower_bound=lower_bound)


def a_measurement(since: datetime, until: datetime, *rows: CostRow) -> Measurement:
    return measurement_of(an_entry(since, until, *rows))
