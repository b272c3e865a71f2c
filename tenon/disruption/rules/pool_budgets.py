"""What the budgets of each NodePool leave for one reason, while methods choose nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tenon.apis.nodepool import Budget
from tenon.apis.reasons import BUDGETED, EVERY_BUDGETED, Reason
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.budgets import allowed
from tenon.disruption.rules.windows import why_closed
from tenon.disruption.situation import Situation


@dataclass(slots=True)
class Members:
    """The nodes of a NodePool that budgets count (`is_counted`).

    A node that left before its replacement counts until the replacement runs.
    """

    total: int = 0
    away: int = 0
    """Those that use each budget up: they are leaving, rebooting, or under a command (DIS-52)."""
    not_ready: int = 0
    """The others that are not ready, which use up the budgets of reasons that count them (N15-231)."""

    def unavailable(self, reason: Reason) -> int:
        """Return how many use up the budgets of a reason."""
        return self.away + (self.not_ready if reason.traits.counts_not_ready else 0)


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
        if is_counted(node):
            members = members_by_pool[node.pool]
            members.total += 1
            if _is_away(node, situation):
                members.away += 1
            elif not node.ready:
                members.not_ready += 1
    for pool in gone_first(situation).values():
        members_by_pool[pool].total += 1
        members_by_pool[pool].away += 1
    return members_by_pool


def gone_first(situation: Situation) -> Mapping[str, str]:
    """Return the NodeClaims that are gone before their replacement runs, with their NodePool.

    Those that still leave are not among them: they count as leaving nodes.
    """
    if not situation.awaiting_replacement:
        return {}
    counted = {node.claim for node in situation.nodes if is_counted(node)}
    return {claim: pool for claim, pool in situation.awaiting_replacement.items() if claim not in counted}


def unavailable_nodes(situation: Situation, pool: str, reason: Reason) -> list[ManagedNode]:
    """Return the nodes that use up the budgets of a NodePool for a reason."""
    return [
        node
        for node in situation.nodes
        if node.pool == pool
        and is_counted(node)
        and (_is_away(node, situation) or (reason.traits.counts_not_ready and not node.ready))
    ]


def is_counted(node: ManagedNode) -> bool:
    """Return whether budgets count the node: it is initialized or reboots, and its instance stays (DIS-50, N15-232).

    A node that budgets do not count needs none of them, so that repair ends a node that never initializes (N15-128).
    """
    return (node.initialized or node.rebooting) and not node.terminating


def _is_away(node: ManagedNode, situation: Situation) -> bool:
    return node.leaving or node.rebooting or bool(node.disrupted_by) or node.claim in situation.under_command


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
            consuming = pool_members.unavailable(reason)
            states.append(BudgetState(pool, reason, pool_members.total, 0 if closed else most, consuming, closed))
    return states


def left_together(situation: Situation, pools: Collection[str], budgets: Sequence[Budget], reason: Reason) -> int:
    """Return how many more nodes of these NodePools may be disrupted by budgets that count them together."""
    members_by_pool = members_of(situation)
    members = [members_by_pool[pool] for pool in pools if pool in members_by_pool]
    return allowed(
        budgets,
        reason,
        total=sum(pool_members.total for pool_members in members),
        unavailable=sum(pool_members.unavailable(reason) for pool_members in members),
        now=situation.now,
    )


class PoolBudgets:
    """How many more nodes of each NodePool may be disrupted for one reason. Computed on first use of a pool."""

    def __init__(self, situation: Situation, reason: Reason) -> None:
        self._situation = situation
        self._reason = reason
        self._members: Mapping[str, Members] | None = None
        self._remaining: dict[str, int] = {}

    def left(self, pool: str) -> int:
        """Return how many more nodes may be disrupted."""
        if pool not in self._remaining:
            self._remaining[pool] = self._allowed(pool)
        return self._remaining[pool]

    def why_closed(self, pool: str) -> str:
        """Return why the pool's disruption windows allow none, in a clause; empty if they do not forbid it."""
        return why_closed(self._situation.policies[pool].windows, self._reason, self._situation.now)

    def why_none(self, pool: str) -> str:
        """Return why no more nodes of a pool may be disrupted, in a clause without figures, for an event."""
        closed = self.why_closed(pool)
        return f"NodePool {pool} is {closed}" if closed else f"the budgets of NodePool {pool} allow no more nodes now"

    def take(self, pool: str) -> bool:
        """Take one node from the pool's budget. Return False if none is left."""
        if self.left(pool) <= 0:
            return False
        self._remaining[pool] -= 1
        return True

    def take_for(self, node: ManagedNode) -> bool:
        """Take the node from its pool's budget, if budgets count it. Return False if none is left."""
        return not is_counted(node) or self.take(node.pool)

    def allows(self, node: ManagedNode) -> bool:
        """Return whether `take_for` would take the node."""
        return not is_counted(node) or self.left(node.pool) > 0

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
            unavailable=pool_members.unavailable(self._reason),
            now=situation.now,
        )
