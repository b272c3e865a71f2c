"""Removes expired nodes of NodePools whose budgets limit expiration (WSH-28, QRK-13).

By default no budget holds expiration back, and each node's own workflow removes the node. A NodePool with the
annotation `tenon.sh/expire-within-budgets` leaves the choice to this method, because only one place that sees all nodes
can count them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis.reasons import Reason
from tenon.disruption.model import Candidate, Command, ManagedNode, Proposal, Situation
from tenon.disruption.pool_budgets import PoolBudgets
from tenon.disruption.size_limits import chosen


class Expiration:
    """Chooses the expired nodes that the budgets allow, in one command: the first expired first, then by name."""

    name = "expiration"
    reason = Reason.EXPIRED
    consolidation_type = ""

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return a command with the nodes that leave now, and when the next one expires."""
        waiting = {name for name, policy in situation.policies.items() if policy.expire_within_budgets}
        expiring = [
            (node.expires_at, node) for node in eligible if node.pool in waiting and node.expires_at is not None
        ]
        due = [Candidate(node, since=at, leaves_at=situation.now) for at, node in expiring if at <= situation.now]
        due.sort(key=lambda candidate: (candidate.since, candidate.node.claim))
        leaving = chosen(due, budgets, situation.under_command)
        look_again = min((at for at, _ in expiring if at > situation.now), default=None)
        if not leaving:
            return Proposal(look_again=look_again, eligible=len(due))
        command = Command(self.name, self.reason, self.consolidation_type, leaving, graceful=False)
        return Proposal((command,), look_again, len(due))
