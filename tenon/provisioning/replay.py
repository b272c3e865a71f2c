"""Compares the plans of the record with those that today's engine makes from the same inputs.

So a new release, or another setting, is judged by what the cluster really asked for, before it buys a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tenon.kube.timestamps import format_instant
from tenon.money import per_hour
from tenon.provisioning.plan_digest import plan_digest
from tenon.record.entries import PlanEntry
from tenon.scheduling.model import Plan
from tenon.sentences import counted, first_few

WORST = 10
"""How many changes a report names."""
TOLERANCE = 0.0001
"""Dollars an hour by which a price or a saving may differ without being another one: entries round it."""
_NAMED_NODES = 5

NodeKind = tuple[str, str]
"""A NodePool and the cheapest instance type of a NodeClaim."""


class Verdict(StrEnum):
    """How today's decision differs. The first that applies counts."""

    SAME = "same"
    FAILED = "failed"
    """Today's engine raises an error."""
    UNFINISHED = "unfinished"
    """Today's engine did not reach all pods within its time."""
    FEWER_PODS = "fewer-pods"
    MORE_PODS = "more-pods"
    DEARER = "dearer"
    CHEAPER = "cheaper"
    OTHER_NODES = "other-nodes"
    """Other nodes for as many pods at the same price."""
    OTHER_PLACES = "other-places"
    """The same nodes, for other pods or with other types to fall back on."""


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """What a plan decides, in figures."""

    nodes: Mapping[NodeKind, int]
    price: float
    """Dollars an hour of the nodes that it buys."""
    pods: int
    """How many pods have a place."""
    unreached: int = 0

    @property
    def node_count(self) -> int:
        """How many nodes it buys."""
        return sum(self.nodes.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plan of the record, and the plan that today's engine makes."""

    batch: int
    at: datetime
    inputs: str
    before: PlanFigures
    after: PlanFigures
    verdict: Verdict
    error: str = ""
    """That of the engine."""

    @property
    def dollars(self) -> float:
        """How many dollars an hour today's plan costs more; 0 if there is none."""
        return 0.0 if self.error else self.after.price - self.before.price


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay of many plans says."""

    comparisons: Sequence[Comparison]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Why plans could not be replayed, each reason with the number of plans."""

    @property
    def changes(self) -> list[Comparison]:
        """The decisions that change, the worst first."""
        changes = [comparison for comparison in self.comparisons if comparison.verdict is not Verdict.SAME]
        return sorted(changes, key=_badness)

    @property
    def dollars(self) -> float:
        """How many dollars an hour today's plans cost more in sum."""
        return sum(comparison.dollars for comparison in self.comparisons)

    def regressions(self, tolerance: float = TOLERANCE) -> list[Comparison]:
        """The decisions that place fewer pods, or cost more by over ``tolerance`` dollars an hour for as many pods."""
        return [
            change
            for change in self.changes
            if change.verdict in (Verdict.FAILED, Verdict.UNFINISHED, Verdict.FEWER_PODS)
            or (change.verdict is Verdict.DEARER and change.dollars > tolerance)
        ]


def compare(entry: PlanEntry, plan: Plan) -> Comparison:
    """Compare an entry with today's plan for the same inputs."""
    before, after = recorded_decision(entry), decision_of(plan)
    return Comparison(entry.batch, entry.at, entry.inputs, before, after, _verdict(entry, plan, before, after))


def failure(entry: PlanEntry, error: str) -> Comparison:
    """Return what is said of a plan on which today's engine fails."""
    before = recorded_decision(entry)
    return Comparison(entry.batch, entry.at, entry.inputs, before, PlanFigures({}, 0.0, 0), Verdict.FAILED, error)


def recorded_decision(entry: PlanEntry) -> PlanFigures:
    """Return what a plan of the record decided."""
    nodes = Counter((purchase.pool, purchase.instance_type) for purchase in entry.purchases)
    bought_for = sum(purchase.pod_count for purchase in entry.purchases)
    if len(entry.purchases) < entry.purchase_count:  # the entry names only the first ones
        bought_for = entry.pods - entry.placed_count - entry.unschedulable_count
    return PlanFigures(nodes, entry.price, bought_for + entry.placed_count)


def decision_of(plan: Plan) -> PlanFigures:
    """Return what a plan decides. Pods that stand for CapacityBuffers do not count."""
    nodes = Counter((claim.pool, claim.offering.instance_type) for claim in plan.claims)
    places = (*plan.placements.values(), *(claim.pods for claim in plan.claims))
    pods = sum(not pod.buffer for placed in places for pod in placed)
    return PlanFigures(nodes, round(sum(claim.price for claim in plan.claims), 6), pods, len(plan.unreached))


def _verdict(entry: PlanEntry, plan: Plan, before: PlanFigures, after: PlanFigures) -> Verdict:
    if plan_digest(plan) == entry.decision and after.pods == before.pods:
        return Verdict.SAME
    if after.unreached:
        return Verdict.UNFINISHED
    if after.pods != before.pods:
        return Verdict.FEWER_PODS if after.pods < before.pods else Verdict.MORE_PODS
    if abs(after.price - before.price) > TOLERANCE:
        return Verdict.DEARER if after.price > before.price else Verdict.CHEAPER
    return Verdict.OTHER_PLACES if after.nodes == before.nodes else Verdict.OTHER_NODES


def _badness(change: Comparison) -> tuple[object, ...]:
    lost_pods = max(0, change.before.pods - change.after.pods)
    return -lost_pods, -change.dollars, change.at, change.batch


def sentence(change: Comparison) -> str:
    """Say how one decision changes."""
    if change.error:
        return f"today's engine fails: {change.error}"
    texts = [
        f"{nodes_text(change.before)} become {nodes_text(change.after)}"
        if change.before.nodes != change.after.nodes
        else f"the same {nodes_text(change.before)} for other pods or with other types to fall back on"
    ]
    if abs(change.dollars) > TOLERANCE:
        texts.append(f"{per_hour(abs(change.dollars))} {'more' if change.dollars > 0 else 'less'}")
    if change.after.pods != change.before.pods:
        texts.append(f"{counted(change.after.pods, 'pod')} placed instead of {change.before.pods}")
    if change.after.unreached:
        texts.append(f"the engine's time ended before {counted(change.after.unreached, 'pod')}")
    return "; ".join(texts)


def nodes_text(decision: PlanFigures) -> str:
    """Name the nodes that a decision buys: '2 m5.large of default'."""
    kinds = [f"{count} {kind} of {pool}" for (pool, kind), count in sorted(decision.nodes.items())]
    return first_few(kinds, _NAMED_NODES) if kinds else "no nodes"


def headline(replay: Replay) -> str:
    """Say in one sentence what changes."""
    number = len(replay.comparisons)
    if not number:
        return "No plan of the record could be replayed"
    changes = replay.changes
    if not changes:
        return f"No decision changes: today's engine makes the same {counted(number, 'plan')}"
    return changes_sentence(len(changes), counted(number, "decision"), "plans cost", replay.dollars)


def changes_sentence(changes: int, decisions: str, figure: str, dollars: float) -> str:
    """Say how many decisions change, and what that makes of a figure in sum.

    Args:
        changes: their number, at least one.
        decisions: how many there are in all, with the noun.
        figure: what the dollars are about, such as 'plans cost'.
        dollars: how much more it is today, an hour.
    """
    verb = "changes" if changes == 1 else "change"
    more = f"{per_hour(abs(dollars))} {'more' if dollars > 0 else 'less'}" if abs(dollars) > TOLERANCE else "as much"
    return f"{changes} of {decisions} {verb}: today's {figure} {more} in sum"


def document(replay: Replay, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """Return the replay as JSON. Names of fields are for scripts: they only gain members."""
    return {
        "plans": len(replay.comparisons),
        "changed": len(replay.changes),
        "regressions": len(replay.regressions(tolerance)),
        "verdicts": dict(sorted(Counter(comparison.verdict.value for comparison in replay.comparisons).items())),
        "pricePerHourBefore": round(sum(comparison.before.price for comparison in replay.comparisons), 6),
        "pricePerHourAfter": round(sum(comparison.after.price for comparison in replay.comparisons), 6),
        "changePerHour": round(replay.dollars, 6),
        "worst": [_change_document(change) for change in replay.changes[:WORST]],
        "leftOut": [{"why": why, "plans": number} for why, number in sorted(replay.left_out.items())],
    }


def _change_document(change: Comparison) -> dict[str, Any]:
    return {
        "batch": change.batch,
        "at": format_instant(change.at),
        "inputs": change.inputs,
        "verdict": change.verdict.value,
        **({"error": change.error} if change.error else {}),
        "changePerHour": round(change.dollars, 6),
        "before": _decision_document(change.before),
        "after": _decision_document(change.after),
    }


def _decision_document(decision: PlanFigures) -> dict[str, Any]:
    return {
        "pods": decision.pods,
        "pricePerHour": round(decision.price, 6),
        "nodes": [
            {"nodePool": pool, "instanceType": kind, "count": count}
            for (pool, kind), count in sorted(decision.nodes.items())
        ],
    }
