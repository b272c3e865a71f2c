"""The view as JSON and CSV. The names of fields are for scripts: they only gain members."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenon.fleet.rows import NodeRow
from tenon.fleet.summary import CommandSummary, FrozenPools, OpenRollout, PendingPod, PoolSchedule, Totals, totals
from tenon.kube.timestamps import format_instant
from tenon.resources import CPU, MEMORY, format_quantity


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that is shown at one moment."""

    rows: Sequence[NodeRow]
    pending_pods: Sequence[PendingPod]
    commands: Sequence[CommandSummary]
    now: datetime
    notes: Sequence[str] = ()
    """What a reader must know about the figures, such as which prices they use; sentences without a period."""
    frozen: Sequence[FrozenPools] = ()
    rollouts: Sequence[OpenRollout] = ()
    scheduled: Sequence[PoolSchedule] = ()


def to_document(fleet: Fleet, rows: Sequence[NodeRow]) -> dict[str, Any]:
    """Return the view as JSON. ``rows`` are those that a filter left, in order; totals are theirs."""
    return {
        "time": format_instant(fleet.now),
        "nodes": [row_document(row, fleet.now) for row in rows],
        "totals": totals_document(totals(rows)),
        "pendingPods": [
            {
                "pod": pod.key,
                "since": format_instant(pod.since) if pod.since is not None else "",
                "why": pod.why,
                "nodeClaim": pod.claim,
            }
            for pod in fleet.pending_pods
        ],
        "commands": [
            {
                "command": command.id,
                "reason": command.reason,
                "nodes": list(command.nodes),
                "replacements": list(command.replacements),
                "savingPerHour": _money(command.saving),
                "waits": command.waits,
                "started": format_instant(command.started) if command.started is not None else "",
            }
            for command in fleet.commands
        ],
        "frozen": [
            {
                "nodePools": list(frozen.pools),
                "freeze": frozen.freeze,
                "requestedBy": frozen.by,
                "reason": frozen.reason,
                "until": format_instant(frozen.until) if frozen.until is not None else "",
            }
            for frozen in fleet.frozen
        ],
        "rollouts": [
            {
                "nodeRollout": rollout.rollout,
                "nodePool": rollout.pool,
                "phase": rollout.phase,
                "wave": rollout.wave,
                "target": rollout.target,
                "message": rollout.message,
            }
            for rollout in fleet.rollouts
        ],
        "scheduled": [
            {
                "nodePool": scheduled.pool,
                "holds": scheduled.holds,
                "entries": list(scheduled.entries),
                "until": format_instant(scheduled.until) if scheduled.until is not None else "",
            }
            for scheduled in fleet.scheduled
        ],
        "notes": list(fleet.notes),
    }


_FIELDS: dict[str, Callable[[NodeRow, datetime], Any]] = {
    "node": lambda row, _: row.node,
    "nodeClaim": lambda row, _: row.claim,
    "instance": lambda row, _: row.instance,
    "nodePool": lambda row, _: row.pool,
    "instanceType": lambda row, _: row.instance_type,
    "zone": lambda row, _: row.zone,
    "capacityType": lambda row, _: row.capacity_type,
    "stage": lambda row, _: row.stage.value,
    "ready": lambda row, _: row.ready,
    "ageSeconds": lambda row, now: round(row.age_seconds(now)),
    "pods": lambda row, _: row.pods,
    "podLimit": lambda row, _: row.pod_limit,
    "cpuRequests": lambda row, _: format_quantity(CPU, row.cpu_requests),
    "cpuAllocatable": lambda row, _: format_quantity(CPU, row.cpu),
    "cpuShare": lambda row, _: round(row.cpu_share, 4),
    "memoryRequests": lambda row, _: format_quantity(MEMORY, row.memory_requests),
    "memoryAllocatable": lambda row, _: format_quantity(MEMORY, row.memory),
    "memoryShare": lambda row, _: round(row.memory_share, 4),
    "pricePerHour": lambda row, _: _money(row.price),
    "disruption": lambda row, _: row.disruption.value,
    "why": lambda row, _: row.why,
    "command": lambda row, _: row.command,
    "blocked": lambda row, _: row.is_blocked,
    "expires": lambda row, _: format_instant(row.expires) if row.expires is not None else "",
    "keptUntil": lambda row, _: format_instant(row.kept_until) if row.kept_until is not None else "",
}
"""The fields of a row in JSON, and the columns of the CSV."""


def row_document(row: NodeRow, now: datetime) -> dict[str, Any]:
    """Return a row as JSON."""
    return {name: field(row, now) for name, field in _FIELDS.items()}


def totals_document(sums: Totals) -> dict[str, Any]:
    """Return totals as JSON."""
    return {
        "nodes": sums.nodes,
        "ready": sums.ready,
        "pods": sums.pods,
        "cpuRequests": format_quantity(CPU, sums.cpu_requests),
        "cpuAllocatable": format_quantity(CPU, sums.cpu),
        "cpuShare": round(sums.cpu_share, 4),
        "memoryRequests": format_quantity(MEMORY, sums.memory_requests),
        "memoryAllocatable": format_quantity(MEMORY, sums.memory),
        "memoryShare": round(sums.memory_share, 4),
        "pricePerHour": _money(sums.cost),
        "pricePerMonth": round(sums.monthly_cost, 2),
        "nodesWithoutPrice": sums.unpriced,
        "nodeClaimsWithoutInstance": sums.unlaunched,
        "otherNodes": sums.others,
        "otherNodesPricePerHour": _money(sums.others_cost),
        "spotNodes": sums.spot,
        "spotShare": round(sums.spot_share, 4),
    }


def to_csv(rows: Sequence[NodeRow], now: datetime) -> str:
    """Return the rows as CSV, with the field names of the JSON in the first line."""
    documents = [row_document(row, now) for row in rows]
    output = io.StringIO()
    writer = csv.DictWriter(output, fieldnames=list(_FIELDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(documents)
    return output.getvalue()


def _money(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 6)
