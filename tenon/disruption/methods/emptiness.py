"""Deletes nodes that have been empty for their NodePool's consolidateAfter (DIS-01, DIS-45).

A node is chosen only when that time has passed, so that budgets, protection and pods on their way are judged at the
moment when it leaves (DIS-46, DIS-53).
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis.reasons import Reason
from tenon.disruption.model import Candidate, Command, ManagedNode, Proposal, Situation
from tenon.disruption.pool_budgets import PoolBudgets
from tenon.disruption.size_limits import chosen


class Emptiness:
    """Chooses the empty nodes that the budgets allow, in one command: the longest empty first, then by name."""

    name = "emptiness"
    reason = Reason.EMPTY
    consolidation_type = "empty"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return a command with the nodes that leave now, and when the next one is due."""
        found: list[Candidate] = []
        later = []
        for node in eligible:
            after = situation.policies[node.pool].consolidate_after
            if after is None or node.quiet_since is None or not _is_free(node, situation):
                continue
            due = node.quiet_since + after
            if due <= situation.now:
                found.append(Candidate(node, since=node.quiet_since, leaves_at=situation.now))
            else:
                later.append(due)
        found.sort(key=lambda candidate: (candidate.since, candidate.node.claim))
        leaving = chosen(found, budgets, situation.under_command)
        look_again = min(later, default=None)
        if not leaving:
            return Proposal(look_again=look_again, eligible=len(found))
        command = Command(self.name, self.reason, self.consolidation_type, leaving, only_if_empty=True)
        return Proposal((command,), look_again, len(found))


def _is_free(node: ManagedNode, situation: Situation) -> bool:
    return node.empty and not node.held_by and not node.named_in(situation.buffer_hosts)
