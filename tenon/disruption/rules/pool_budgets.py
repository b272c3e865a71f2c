"""What the budgets of each NodePool leave for one reason, while methods choose nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tenon.apis.reasons import BUDGETED, EVERY_BUDGETED, Reason
from tenon.disruption.model import ManagedNode, Situation
from tenon.disruption.rules.budgets import allowed
from tenon.disruption.rules.windows import why_closed


@dataclass(slots=True)
class Members:
    """The nodes of a NodePool that budgets count: initialized, and their instance is not being terminated (DIS-50)."""

    total: int = 0
    unavailable: int = 0
    """Those that use the budget up: they are not ready, leaving, or under a command (DIS-52)."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What the budgets of a NodePool say about one reason."""

    pool: str
    reason: Reason
    total: int
    """How many nodes they count."""
    allowed: int
    """How many nodes may be gone at once."""
    consuming: int
    """How many nodes are gone."""
    closed: str = ""
    """Why the disruption windows of the NodePool allow none, in a clause; empty if they do not forbid it."""

    @property
    def blocks(self) -> bool:
        """Whether they allow no disruption although there are nodes (DIS-55)."""
        return self.total > 0 and self.allowed == 0


def members_of(situation: Situation) -> Mapping[str, Members]:
    """Count the nodes of all NodePools in one pass, because a cluster may have thousands of nodes."""
    members_by_pool: defaultdict[str, Members] = defaultdict(Members)
    for node in situation.nodes:
        if _counts(node):
            members = members_by_pool[node.pool]
            members.total += 1
            members.unavailable += _is_unavailable(node, situation)
    return members_by_pool


def unavailable_nodes(situation: Situation, pool: str) -> list[ManagedNode]:
    """Return the nodes that use up the budgets of a NodePool."""
    return [
        node for node in situation.nodes if node.pool == pool and _counts(node) and _is_unavailable(node, situation)
    ]


def _counts(node: ManagedNode) -> bool:
    return node.initialized and not node.terminating


def _is_unavailable(node: ManagedNode, situation: Situation) -> bool:
    return node.leaving or not node.ready or bool(node.disrupted_by) or node.claim in situation.under_command


def budget_states(situation: Situation) -> list[BudgetState]:
    """Return what the budgets of every NodePool say about each reason that they cover."""
    states = []
    members = members_of(situation)
    for pool, policy in sorted(situation.policies.items()):
        pool_members = members.get(pool, Members())
        by_budgets: dict[tuple[bool, ...], int] = {}  # most budgets name no reason, and schedules are slow to evaluate
        for reason in EVERY_BUDGETED if policy.expire_within_budgets else BUDGETED:
            same = tuple(budget.reasons is None or reason in budget.reasons for budget in policy.budgets)
            if same not in by_budgets:
                by_budgets[same] = allowed(
                    policy.budgets, reason, total=pool_members.total, unavailable=0, now=situation.now
                )
            most = by_budgets[same]
            closed = why_closed(policy.windows, reason, situation.now)
            states.append(
                BudgetState(pool, reason, pool_members.total, 0 if closed else most, pool_members.unavailable, closed)
            )
    return states


class PoolBudgets:
    """How many more nodes of each NodePool may be disrupted for one reason. Computed on first use of a pool."""

    def __init__(self, situation: Situation, reason: str) -> None:
        self._situation = situation
        self._reason = reason
        self._members: Mapping[str, Members] | None = None
        self._left: dict[str, int] = {}

    def left(self, pool: str) -> int:
        """Return how many more nodes may be disrupted."""
        if pool not in self._left:
            self._left[pool] = self._allowed(pool)
        return self._left[pool]

    def why_closed(self, pool: str) -> str:
        """Return why the pool's disruption windows allow none, in a clause; empty if they do not forbid it."""
        return why_closed(self._situation.policies[pool].windows, self._reason, self._situation.now)

    def take(self, pool: str) -> bool:
        """Take one node from the pool's budget. Return False if none is left."""
        if self.left(pool) <= 0:
            return False
        self._left[pool] -= 1
        return True

    def _allowed(self, pool: str) -> int:
        situation = self._situation
        if self.why_closed(pool):
            return 0
        if self._members is None:
            self._members = members_of(situation)
        pool_members = self._members.get(pool, Members())
        return allowed(
            situation.policies[pool].budgets,
            self._reason,
            total=pool_members.total,
            unavailable=pool_members.unavailable,
            now=situation.now,
        )
