"""The report as JSON. The names of fields are for scripts: they only gain members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenon.fleet.document import to_document as fleet_document
from tenon.kube.timestamps import format_instant
from tenon.report.ahead import Ahead
from tenon.report.happened import Carried, EntryGroup, Happened
from tenon.report.report import Past, Report
from tenon.resources import format_quantity


def to_document(report: Report) -> dict[str, Any]:
    """Return the report."""
    cluster = report.cluster
    return {
        "cluster": cluster.name,
        **fleet_document(cluster.fleet, cluster.fleet.rows),
        "blocked": dict(cluster.blocked_texts),
        "advice": [
            {
                "rule": advice.rule,
                "sentence": advice.sentence,
                "action": advice.action,
                "nodes": list(advice.nodes),
                "pods": list(advice.pods),
                "dollarsPerDay": _money(advice.dollars_a_day),
                "figures": dict(advice.figures),
            }
            for advice in report.advice
        ],
        "past": _past(report.past) if report.past is not None else None,
        "ahead": _ahead(report.ahead),
    }


def _past(past: Past) -> dict[str, Any]:
    now = past.whole.until
    return {
        "cost": {
            "lastDay": _money(past.cost(past.day.since)),
            "window": _money(past.cost(past.whole.since)),
            "byNodePool": {pool: _money(cost) for pool, cost in past.spending.by_pool(past.whole.since, now).items()},
            "byNamespace": {name: _money(cost) for name, cost in past.by_namespace.items()},
            "bucketSeconds": past.cost_axis.length.total_seconds(),
            "from": format_instant(past.cost_axis.start),
            "perHour": [_money(value) for value in past.an_hour],
            "lowerBoundPerHour": [_money(value) for value in past.lower_bounds],
            "instancesWithoutPrice": past.spending.unpriced,
            "instancesWithoutEnd": past.spending.bill.endless,
        },
        "lastDay": _happened(past.day),
        "window": _happened(past.whole),
    }


def _happened(happened: Happened) -> dict[str, Any]:
    return {
        "since": format_instant(happened.since),
        "until": format_instant(happened.until),
        "plans": happened.plans,
        "plannedPods": happened.planned_pods,
        "launches": len(happened.launches),
        "removals": len(happened.removals),
        "endedBeforeLaunch": len(happened.unlaunched),
        "launched": _groups(happened.launched, ("nodePool", "capacityType", "instanceType")),
        "removed": _groups(happened.removed, ("reason",)),
        "blockedDrains": [
            {
                "time": format_instant(block.since),
                "node": entry.facts.node or entry.facts.claim,
                "nodePool": entry.facts.pool,
                "cause": block.cause,
                "pods": list(block.pods),
                "podCount": block.pod_count,
                "seconds": block.seconds,
                "reason": entry.reason,
            }
            for entry, block in happened.blocked_drains
        ],
        "refusals": len(happened.refusals),
        "refused": _groups(happened.refused, ("code", "offering")),
        "interruptions": [
            {"time": format_instant(entry.at), "nodeClaim": entry.facts.claim, "notice": entry.reason}
            for entry in happened.interruptions
        ],
        "commands": [_command(carried) for carried in happened.commands],
        "predictedSavingPerHour": _money(happened.predicted_saving),
        "reachedSavingPerHour": _money(happened.reached_saving),
        "actors": _groups(happened.actors, ("actor", "deed")),
    }


def _groups(groups: Sequence[EntryGroup], names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            **dict(zip(names, group.key, strict=True)),
            "count": group.count,
            **({"dollars": _money(group.dollars)} if group.dollars else {}),
            **({"pods": group.pods} if group.pods else {}),
            "last": format_instant(group.last_at) if group.last_at is not None else "",
        }
        for group in groups
    ]


def _command(carried: Carried) -> dict[str, Any]:
    return {
        "time": format_instant(carried.at),
        "command": carried.command,
        "reason": carried.reason,
        "outcome": carried.outcome,
        "predictedSavingPerHour": _money(carried.predicted),
        "reachedSavingPerHour": _money(carried.reached),
    }


def _ahead(ahead: Ahead) -> dict[str, Any]:
    return {
        "expiries": [
            {"time": format_instant(expiry.at), "node": expiry.node.name, "nodePool": expiry.node.row.pool}
            for expiry in ahead.expiries
        ],
        "drifted": [
            {
                "node": drift.node.name,
                "nodePool": drift.node.row.pool,
                "since": format_instant(drift.since) if drift.since is not None else "",
                "why": drift.why,
            }
            for drift in ahead.drifts
        ],
        "nearLimits": [
            {
                "nodePool": use.pool,
                "resource": use.resource,
                "used": format_quantity(use.resource, use.used),
                "limit": format_quantity(use.resource, use.limit),
            }
            for use in ahead.limits
        ],
    }


def _money(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 6)
