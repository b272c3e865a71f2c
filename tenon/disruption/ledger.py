"""Decides when a disruption command no longer holds a node, so that budgets count the node as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from tenon.disruption.model import ManagedNode
from tenon.lifecycle.messages.disruption import LedgerEntry

GRACE_PERIOD = timedelta(seconds=30)
"""How long after its due time a node that accepted its command has started to leave."""
PREPARED_WITHIN = timedelta(minutes=3)
"""How long after its start a command that moves pods has marked its candidates, unless it ended."""


def finished_commands(ledger: Mapping[str, LedgerEntry], nodes: Sequence[ManagedNode], now: datetime) -> list[str]:
    """Return NodeClaims whose command is over: they are gone, or did not leave although they were due."""
    present = {node.claim: node for node in nodes}
    return sorted(
        claim for claim, entry in ledger.items() if claim not in present or _is_over(entry, present[claim], now)
    )


def claims_of(ledger: Mapping[str, LedgerEntry], *, postponed: bool) -> frozenset[str]:
    """Return the NodeClaims that an open command removes; with ``postponed``, those whose command failed instead."""
    return frozenset(claim for claim, entry in ledger.items() if entry.postponed is postponed)


def hosts_of(ledger: Mapping[str, LedgerEntry]) -> frozenset[str]:
    """Return the NodeClaims that open commands move pods to (DIS-62). No other command removes them meanwhile."""
    return frozenset(host for entry in ledger.values() if not entry.postponed for host in entry.hosts)


def _is_over(entry: LedgerEntry, node: ManagedNode, now: datetime) -> bool:
    if node.leaving:
        return False
    if entry.due is not None:
        return now > entry.due + GRACE_PERIOD
    # A command that moves pods marks its candidates. If it was terminated, the mark is removed.
    return entry.since is not None and now > entry.since + PREPARED_WITHIN and node.disrupted_by != entry.command
