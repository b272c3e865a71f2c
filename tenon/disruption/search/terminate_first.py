"""Decides whether a node may leave before its replacement starts, because there is no room for both (N15-191..198).

A node in a full capacity reservation keeps the place that its replacement needs, and a static NodePool at its
``limits.nodes`` may have no node more. Such a node is only deleted, and ordinary provisioning buys what comes in its
place. Every method that replaces nodes may ask: drift does, with the gate TerminateFirstDrift.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.decision import TerminateFirst
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.rules.pool_budgets import Members, PoolBudgets, is_counted, members_of
from tenon.disruption.search.consolidation_price import is_compatible
from tenon.disruption.search.rescheduling import Rescheduler, is_complete
from tenon.disruption.situation import Situation
from tenon.messages.terminate_first import TerminateFirstReason
from tenon.resources import NODES
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.empty_node import NoEmptyNodeError, empty_node_problem, plan_empty_node
from tenon.scheduling.model import Offering, Plan, PlannedClaim, Pool
from tenon.scheduling.reservations import (
    places_left,
    reservation_of,
    reservation_of_node,
    with_places_credited,
    with_places_taken,
)
from tenon.sentences import counted

AT_LIMIT = "static NodePool is at its node limit and cannot stage a replacement"
"""Why a node stays, as events say it (N15-197)."""
RESERVATIONS_FULL = "static NodePool's capacity reservations are full and cannot stage a replacement"
"""The same, of a node whose leaving frees no place in them (N15-195)."""


def plan_after_leaving(claim: str, rescheduler: Rescheduler, expired: Expired = never) -> Plan | None:
    """Return where the pods of a node go once its place in its capacity reservation is free (N15-192).

    Ask this only if the pods have no other place while the node is there.

    Args:
        claim: the node's NodeClaim, for which the rescheduler has a detail.
        rescheduler: the cluster.
        expired: ends the simulation early.

    Returns:
        The plan. None if some pod would wait even then, if a new node of the plan is not in a reservation (strict
        mode), or if the node is in no reservation.
    """
    name = reservation_of_node(rescheduler.node(claim))
    if not name:
        return None
    plan = rescheduler.simulate([claim], extra_places={name: 1}, expired=expired)
    return plan if is_complete(plan) and all(map(reservation_of, plan.claims)) else None


def of_reservation(claim: str, rescheduler: Rescheduler, plan: Plan) -> TerminateFirst:
    """Return how the node leaves first whose plan `plan_after_leaving` returned."""
    return TerminateFirst(
        TerminateFirstReason.NO_RESERVED_CAPACITY, plan.claims, reservation_of_node(rescheduler.node(claim))
    )


def why_surge_forbids(detail: NodeDetail) -> str:
    """Return why a node with Deployments that start their new pod first must not leave first; empty if it may."""
    if not detail.surges:
        return ""
    return f"Deployment {detail.surges[0]} asks to start its new pod first, which needs another node at the same time"


@dataclass(frozen=True, slots=True)
class StaticReplacement:
    """How one node of a static NodePool is replaced now: by ``claim``, unless ``why_not`` says why it is not."""

    claim: PlannedClaim | None = None
    terminate_first: TerminateFirst | None = None
    """Set if the node leaves before the replacement starts."""
    why_not: str = ""


class StaticReplacements:
    """Finds out how the nodes of static NodePools are replaced in one pass, so that no two of them use the same place.

    Drift and repair use it.
    """

    def __init__(self, situation: Situation, model: ClusterModel, *, terminate_first: bool) -> None:
        """``terminate_first``: nodes may leave first, as the feature gate of the method says."""
        self._situation = situation
        self._model = model
        self._terminate_first = terminate_first
        self._nodes = {node.name: node for node in model.problem.nodes}
        self._staying = Counter(
            node.pool for node in situation.nodes if not node.leaving and node.claim not in situation.under_command
        )
        """By NodePool, how many nodes stay."""
        self._members: Mapping[str, Members] | None = None
        self._full: dict[str, frozenset[str] | None] = {}
        """By NodePool, what `full_reservations` says after the replacements so far."""
        self._room: dict[str, int] = {}
        """By NodePool, how many more replacements may start next to the nodes that they replace."""
        self._planned: dict[str, PlannedClaim | str] = {}
        self._bought: list[PlannedClaim] = []
        self._freed: dict[str, int] = {}
        """By ID of a capacity reservation, how many of its places the nodes give back that leave first."""

    def of(
        self, node: ManagedNode, detail: NodeDetail, budgets: PoolBudgets, version: Pool | None = None
    ) -> StaticReplacement:
        """Return how a node is replaced, and count it as replaced so.

        Args:
            node: a node of a static NodePool.
            detail: what is known of it.
            budgets: what they leave. A node that leaves first needs a replica that may be missing meanwhile.
            version: the pool in the version that the new node gets, if it is not the usual one. Then no node leaves
                first, because what comes after it is an ordinary launch.
        """
        pool = node.pool
        static_pool = self._model.static_pools.get(pool)
        if static_pool is None:
            return StaticReplacement(why_not=f"NodePool {pool} can launch no nodes now")
        if self._surplus(pool) > 0:
            return StaticReplacement(why_not=f"NodePool {pool} has more nodes than replicas")
        may_leave_first = self._terminate_first and version is None
        if may_leave_first and (offered := self._full_reservations(static_pool)) is not None:
            place = self._place(detail)
            if place not in offered:
                return StaticReplacement(why_not=f"its {RESERVATIONS_FULL}")
            return self._leaving_first(node, detail, TerminateFirstReason.NO_RESERVED_CAPACITY, place, budgets)
        if pool not in self._room:
            self._room[pool] = self._room_of(static_pool)
        if self._room[pool] > 0:
            return self._staged(pool, version)
        if (static_pool.limits or {}).get(NODES, 0) > self._replicas(pool):
            return StaticReplacement(why_not="limits.nodes leaves no room until other replacements are done")
        if not may_leave_first:
            return StaticReplacement(why_not=f"its {AT_LIMIT}")
        place = self._place(detail)
        return self._leaving_first(node, detail, TerminateFirstReason.STATIC_AT_LIMIT, place, budgets)

    def _staged(self, pool: str, version: Pool | None) -> StaticReplacement:
        if pool not in self._planned:
            self._planned[pool] = self._plan(pool, version=version)
        planned = self._planned[pool]
        if isinstance(planned, str):
            return StaticReplacement(why_not=planned)
        self._room[pool] -= 1
        self._buys(planned)
        return StaticReplacement(planned)

    def _leaving_first(
        self, node: ManagedNode, detail: NodeDetail, reason: TerminateFirstReason, place: str, budgets: PoolBudgets
    ) -> StaticReplacement:
        if why := why_surge_forbids(detail) or self._why_too_few(node, budgets):
            return StaticReplacement(why_not=why)
        freed = {place: 1} if place else {}
        planned = self._plan(node.pool, freed)
        if isinstance(planned, str):
            return StaticReplacement(why_not=planned)
        for name in freed:
            self._freed[name] = self._freed.get(name, 0) + 1
            self._full.clear()
        self._buys(planned)
        return StaticReplacement(planned, TerminateFirst(reason, (planned,), place))

    def _why_too_few(self, node: ManagedNode, budgets: PoolBudgets) -> str:
        """Return why replicas that no budget counts, because they are missing, keep the node; empty if they do not.

        A node that budgets do not count, because it never was initialized, needs none of them either.
        """
        pool, counts = node.pool, is_counted(node)
        if self._members is None:
            self._members = members_of(self._situation)
        total = self._members.get(pool, Members()).total + (not counts)
        missing = self._replicas(pool) - total
        if missing <= 0 or budgets.left(pool) >= missing + counts:
            return ""
        lacks = counted(missing, "replica")
        return f"NodePool {pool} lacks {lacks}, which its budgets must allow as well before a node leaves first"

    def _buys(self, planned: PlannedClaim) -> None:
        self._bought.append(planned)
        if reservation_of(planned):
            self._planned.clear()  # the next node may need another place
            self._full.clear()

    def _plan(self, pool: str, freed: dict[str, int] | None = None, version: Pool | None = None) -> PlannedClaim | str:
        """Return the new node of a static pool, or why there is none."""
        try:
            launching = version if version is not None else self._model.static_pools[pool]
            (credited_pool,) = with_places_credited([self._left(launching)], freed or {})
            return plan_empty_node(empty_node_problem(self._model.problem, credited_pool))
        except NoEmptyNodeError as error:
            return f"no replacement can be bought: {error}"

    def _full_reservations(self, static_pool: Pool) -> frozenset[str] | None:
        if static_pool.name not in self._full:
            self._full[static_pool.name] = full_reservations(self._left(static_pool))
        return self._full[static_pool.name]

    def _left(self, static_pool: Pool) -> Pool:
        """Return the pool with what the replacements so far leave of its reservations."""
        (pool_left,) = with_places_taken(with_places_credited([static_pool], self._freed), self._bought)
        return pool_left

    def _place(self, detail: NodeDetail) -> str:
        node = self._nodes.get(detail.node)
        return reservation_of_node(node) if node is not None else ""

    def _replicas(self, pool: str) -> int:
        return self._situation.policies[pool].replicas or 0

    def _surplus(self, pool: str) -> int:
        """Return how many nodes the pool has too many. Its controller removes them first."""
        return self._staying[pool] - self._replicas(pool)

    def _room_of(self, static_pool: Pool) -> int:
        """Return how many nodes of the pool may be replaced by nodes that start next to them.

        A replica that is missing, also because a command has yet to create the replacement, counts as a node.
        """
        name = static_pool.name
        members = sum(node.pool == name for node in self._situation.nodes)
        limit = (static_pool.limits or {}).get(NODES)
        return members if limit is None else limit - members - (self._replicas(name) - self._staying[name])


def full_reservations(pool: Pool) -> frozenset[str] | None:
    """Return the capacity reservations of a pool that can buy nothing else and of which none has a free place.

    None for every other pool: one compatible offering outside reservations is enough, even if it is not available now.
    A reservation that is no longer offered is not among them, because nothing could be launched into it.
    """
    offerings = list(_compatible(pool))
    if not offerings or any(not offering.reservation_id for offering in offerings):
        return None
    if any(offering.available and places_left(pool, offering) > 0 for offering in offerings):
        return None
    return frozenset(offering.reservation_id for offering in offerings if offering.available)


def _compatible(pool: Pool) -> Iterator[Offering]:
    for instance_type in pool.instance_types:
        if instance_type.requirements.intersects(pool.requirements):
            yield from (offering for offering in instance_type.offerings if is_compatible(pool.requirements, offering))


def intended_text(terminate_first: TerminateFirst) -> Iterable[str]:
    """Yield lines for the command's page: why the node leaves first, and what comes in its place."""
    if terminate_first.reason is TerminateFirstReason.STATIC_AT_LIMIT:
        yield "leaves before its replacement starts, because the static NodePool is at its node limit"
    else:
        full = terminate_first.reservation
        yield f"leaves before its replacement starts, because capacity reservation {full} is full"
    for claim in terminate_first.intended[:2]:
        name = reservation_of(claim)
        where = f" in capacity reservation {name}" if name else ""
        for_pods = f" for {counted(len(claim.pods), 'pod')}" if claim.pods else ""
        yield f"intended replacement{for_pods}: {claim.offering.instance_type} of NodePool {claim.pool}{where}"
