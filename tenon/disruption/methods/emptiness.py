"""Deletes nodes that have been empty for their NodePool's consolidateAfter (DIS-01, DIS-45).

A node is chosen only when that time has passed, so that budgets, protection and pods on their way are judged at the
moment when it leaves (DIS-46, DIS-53).
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis.reasons import Reason
from tenon.disruption.decision import Command, Proposal
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.size_limits import chosen
from tenon.disruption.situation import Situation


class Emptiness:
    """Chooses the empty nodes that the budgets allow, in one command: the longest empty first, then by name."""

    name = "emptiness"
    reason = Reason.EMPTY
    consolidation_type = "empty"

    def cause(self, node: ManagedNode, situation: Situation) -> str:  # noqa: ARG002 - other methods need it
        """Return that the node is empty."""
        return "it is empty" if node.empty else ""

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return a command with the nodes that leave now."""
        leaving = chosen(((node.quiet_since, node) for node in eligible), budgets, situation)
        if not leaving:
            return Proposal()
        command = Command(self.name, self.reason, self.consolidation_type, leaving, only_if_empty=True)
        return Proposal((command,))
