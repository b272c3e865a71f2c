"""Leaves out of entries what a report does not show, because it holds all entries of its window in memory."""

from __future__ import annotations

from tenon.record.entries import CostEntry, CostRow, Entry, PlanEntry, RemovalEntry


def slim(entry: Entry) -> Entry:
    """Return the entry without the pods of plans, without timelines, and with the cost of namespaces only."""
    match entry:
        case PlanEntry():
            return entry.model_copy(update={"on_existing": {}, "purchases": [], "unschedulable": {}})
        case RemovalEntry():
            return entry.model_copy(update={"timeline": []})
        case CostEntry():
            return entry.model_copy(update={"rows": _by_namespace(entry.rows)})
        case _:
            return entry


def _by_namespace(rows: list[CostRow]) -> list[CostRow]:
    costs: dict[tuple[str, str, str], float] = {}
    for row in rows:
        key = (row.pool, row.namespace, row.of)
        costs[key] = costs.get(key, 0.0) + row.cost
    return [CostRow(pool=pool, namespace=namespace, of=of, cost=cost) for (pool, namespace, of), cost in costs.items()]
