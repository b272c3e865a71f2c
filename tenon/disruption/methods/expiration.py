"""Removes expired nodes of NodePools whose budgets limit expiration (WSH-28, QRK-13).

By default no budget holds expiration back, and each node's own workflow removes the node. A NodePool with the
annotation `tenon.sh/expire-within-budgets` leaves the choice to this method, because only one place that sees all nodes
can count them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis.reasons import Reason
from tenon.disruption.decision import Command, Proposal
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.size_limits import chosen
from tenon.disruption.situation import Situation
from tenon.kube.timestamps import time_text


class Expiration:
    """Chooses the expired nodes that the budgets allow, in one command: the first expired first, then by name."""

    name = "expiration"
    reason = Reason.EXPIRED
    consolidation_type = ""

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        """Return that the node expires, if its NodePool lets budgets hold it back."""
        policy = situation.policies.get(node.pool)
        if policy is None or not policy.expire_within_budgets or node.expires_at is None:
            return ""
        return f"it expires at {time_text(node.expires_at)}"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return a command with the nodes that leave now."""
        leaving = chosen(((node.expires_at, node) for node in eligible), budgets, situation)
        if not leaving:
            return Proposal()
        command = Command(self.name, self.reason, self.consolidation_type, leaving, graceful=False)
        return Proposal((command,))
