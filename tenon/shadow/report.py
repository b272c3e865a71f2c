"""The report of `tenon shadow`: what both cost, the decisions that differ most, risks, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from tenon.kube.timestamps import format_instant, from_epoch
from tenon.money import HOURS_A_MONTH, price_text
from tenon.sentences import counted, lasting
from tenon.shadow.batches import BatchComparison, Purchases, why_different
from tenon.shadow.cluster import Disturbance
from tenon.shadow.disruptions import VALIDATION_SECONDS, ModelCommand
from tenon.shadow.ledger import Rates
from tenon.shadow.saved import ShadowTotals

Document = dict[str, Any]
MAX_RISKS = 50
"""How many pods without a node, and how many faults of manifests, a report names."""


@dataclass(frozen=True, slots=True)
class Risks:
    """What to look at before Tenon may write."""

    unplaced: Mapping[str, str]
    """By key of a pod that Tenon would not place now, why."""
    refused: Sequence[str]
    """What Tenon refuses or warns of in the cluster's NodePools and EC2NodeClasses, in sentences."""
    left_out: Sequence[str]
    """NodePools that Tenon would not manage, in sentences."""


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """Everything that the report says, in whatever form."""

    at: float
    """When it was made, in seconds since the epoch."""
    totals: ShadowTotals
    rates: Rates
    risks: Risks
    boot: float
    """Seconds that a node takes until it is ready, as the model assumes."""
    drain: float
    """Seconds that a node with pods takes to leave, as the model assumes."""
    notes: Sequence[str] = ()
    """What is not known, in sentences."""

    @property
    def share(self) -> float | None:
        """The part of the cost that Tenon would have saved, from 0 to 1; None while nothing cost anything."""
        ledger = self.totals.ledger
        return ledger.saved / ledger.their_dollars if ledger.their_dollars else None

    @property
    def a_month(self) -> float:
        """What Tenon would save in a month if it went on as it did so far, in dollars.

        The prices of this moment would say less: they change with every node, so that their difference may even have
        the other sign.
        """
        ledger = self.totals.ledger
        return ledger.saved / ledger.seconds * 3600 * HOURS_A_MONTH if ledger.seconds else 0.0

    @property
    def assumptions(self) -> Sequence[str]:
        """What the model assumes, in sentences."""
        return (
            f"A node of the model is ready after {self.boot:.0f} s, as long as the cluster's own nodes take",
            f"A command that moves pods is validated after {VALIDATION_SECONDS:.0f} s, and its nodes cost until their "
            f"replacements are ready and for {self.drain:.0f} s of drain, as long as the cluster's own nodes take",
            "Of several nodes with room, kube-scheduler takes the emptiest; its other preferences are not modeled",
            "EC2 has capacity for what the model buys: what EC2 refuses is known only to those who ask it",
            "A spot interruption hits a node of the model only if it has the same type in the same zone",
        )


def document(report: ShadowReport) -> Document:
    """Return the report as `-o json` prints it."""
    totals, ledger = report.totals, report.totals.ledger
    return {
        "verdict": verdict(report),
        "at": _time(report.at),
        "begun": _time(ledger.begun),
        "observedSeconds": round(ledger.seconds),
        "unobservedSeconds": round(ledger.unobserved_seconds),
        "now": _rates(report.rates),
        "cost": {
            "karpenterDollars": round(ledger.their_dollars, 6),
            "tenonDollars": round(ledger.our_dollars, 6),
            "savedDollars": round(ledger.saved, 6),
            "savedShare": None if report.share is None else round(report.share, 4),
            "savedDollarsAMonth": round(report.a_month, 2),
        },
        "disturbance": {"karpenter": _disturbance(totals.theirs), "tenon": _disturbance(totals.ours)},
        "purchases": {
            "compared": totals.batches,
            "pods": totals.pods_compared,
            "notComparable": totals.unlike,
            "karpenterPricePerHour": round(totals.their_dollars_per_hour, 6),
            "tenonPricePerHour": round(totals.our_dollars_per_hour, 6),
            "differMost": [comparison_entry(comparison) for comparison in totals.differing],
        },
        "commands": [_command(command) for command in totals.commands],
        "risks": {
            "unplaced": dict(sorted(report.risks.unplaced.items())[:MAX_RISKS]),
            "unplacedCount": len(report.risks.unplaced),
            "refused": list(report.risks.refused[:MAX_RISKS]),
            "leftOut": list(report.risks.left_out),
        },
        "notes": list(report.notes),
        "assumptions": list(report.assumptions),
        "samples": [{"at": _time(sample.at), **_rates(sample.rates)} for sample in ledger.samples],
    }


def comparison_entry(comparison: BatchComparison) -> Document:
    """Return a purchase, and what differs."""
    return {
        "at": _time(comparison.at),
        "pods": comparison.pods,
        "workloads": list(comparison.workloads),
        "karpenter": _purchases(comparison.theirs),
        "tenon": _purchases(comparison.ours),
        "savedPricePerHour": round(comparison.difference, 6) if comparison.is_fair else None,
        "why": why_different(comparison),
    }


def nodes_text(purchases: Document) -> str:
    """Return what an entry says was bought, in a line: '2 m5.xlarge on-demand'."""
    parts: dict[tuple[str, str], int] = {}
    for bought in purchases["nodes"]:
        key = bought["instance_type"], bought["capacity_type"]
        parts[key] = parts.get(key, 0) + bought["count"]
    texts = [f"{count} {kind} {capacity}" for (kind, capacity), count in parts.items()]
    if purchases["onExistingNodes"]:
        texts.append(f"{counted(purchases['onExistingNodes'], 'pod')} on existing nodes")
    return ", ".join(texts) or "nothing"


def types_text(names: Sequence[str]) -> str:
    """Return instance types with their numbers: '2 m5.xlarge, 1 c5.large'."""
    return ", ".join(f"{count} {name}" for name, count in Counter(names).items()) or "nothing"


def verdict(report: ShadowReport) -> str:
    """Return the most important sentence."""
    ledger = report.totals.ledger
    if report.share is None and report.risks.left_out:
        return "Nothing is compared yet: Tenon would not manage these NodePools, as the risks say"
    if report.share is None and report.rates.theirs:
        return "The model has just begun, as a copy of the cluster"
    if report.share is None:
        return "Nothing has cost anything yet: no node of the cluster has a known price"
    watched = lasting(timedelta(seconds=ledger.seconds))
    word = "saved" if ledger.saved >= 0 else "paid"
    more = "" if ledger.saved >= 0 else " more"
    return (
        f"In {watched}, Tenon would have {word} {price_text(abs(ledger.saved))}{more} of "
        f"{price_text(ledger.their_dollars)} ({abs(report.share):.1%})"
    )


def _time(seconds: float) -> str | None:
    instant = from_epoch(seconds)
    return None if instant is None else format_instant(instant)


def _rates(rates: Rates) -> Document:
    return {
        "karpenterPricePerHour": round(rates.theirs, 6),
        "tenonPricePerHour": round(rates.ours, 6),
        "lowerBoundPricePerHour": None if rates.bound is None else round(rates.bound, 6),
        "karpenterNodes": rates.their_nodes,
        "tenonNodes": rates.our_nodes,
        "karpenterWaitingPods": rates.their_waiting,
        "tenonWaitingPods": rates.our_waiting,
    }


def _disturbance(disturbance: Disturbance) -> Document:
    return {
        "podsMoved": disturbance.pods_moved,
        "nodesRemoved": disturbance.nodes_removed,
        "byReason": dict(sorted(disturbance.by_reason.items())),
    }


def _purchases(purchases: Purchases) -> Document:
    return {
        "nodes": [asdict(bought) for bought in purchases.nodes],
        "pricePerHour": round(purchases.price, 6),
        "unplaced": dict(purchases.unplaced),
        "unplacedCount": purchases.unplaced_count,
        "onExistingNodes": purchases.on_existing,
    }


def _command(command: ModelCommand) -> Document:
    return {
        "at": _time(command.at),
        "reason": command.reason,
        "removed": list(command.removed),
        "bought": list(command.bought),
        "pods": command.pods,
        "savedPricePerHour": round(command.saving, 6),
        "explanation": list(command.explanation),
    }
