"""Simulates where the pods of a node go if it leaves: the scheduling engine on the cluster without that node.

A simulation places only the pods of the candidates. Pods that wait for a node do not matter (DIS-32). Nodes that are
not initialized take no pods (DIS-31), because they may never become ready.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.disruption.cluster_model import ClusterModel, at_limit
from tenon.disruption.decision import Command
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search.carried_out import new_name
from tenon.disruption.search.moves import Move
from tenon.disruption.situation import Situation
from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY, NODES, PODS, Resources, add, maximum, subtract
from tenon.scheduling.after_plan import new_node, pools_after
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.engine import solve
from tenon.scheduling.goals import follow_goals
from tenon.scheduling.model import Node, Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.hourly_cost import TOTAL_HOURLY_COST, total_cost
from tenon.scheduling.reservations import with_places_credited, with_places_taken
from tenon.scheduling.within_costs import solve_within_costs


class Rescheduler:
    """A model of the cluster that removals change one after another, so that no two of them use the same room."""

    def __init__(self, model: ClusterModel, closed: Collection[str] = ()) -> None:
        """Start from the model.

        Args:
            model: the cluster.
            closed: names of more Nodes that must take no pods.
        """
        self._tables = model.tables
        self._facts = model.facts
        self._details = model.details
        shut = frozenset(closed)
        self._nodes = {
            node.name: replace(node, closed=True) if node.name in shut or not node.initialized else node
            for node in model.problem.nodes
        }
        self._pools = {pool.name: pool for pool in model.problem.pools}
        self._problem = model.problem
        self._plans: dict[tuple[tuple[str, ...], bool, frozenset[str]], Plan] = {}
        """What `simulate` returned since the last removal. A search asks several times about the same nodes."""

    def detail(self, claim: str) -> NodeDetail | None:
        """Return what is known of a NodeClaim's node; None if it cannot be simulated."""
        detail = self._details.get(claim)
        return detail if detail is not None and detail.node in self._nodes else None

    def node(self, claim: str) -> Node:
        """Return the Node of a NodeClaim for which `detail` has an answer."""
        return self._nodes[self._details[claim].node]

    def nodes(self) -> list[Node]:
        """Return the nodes as the removals so far leave them. Those that take no pods are closed."""
        return list(self._nodes.values())

    def simulate(
        self,
        claims: Iterable[str],
        *,
        buys: bool = True,
        closed: Collection[str] = frozenset(),
        extra_places: Mapping[str, int] | None = None,
        versions: Mapping[str, Pool] | None = None,
        expired: Expired = never,
    ) -> Plan:
        """Plan all pods of these NodeClaims without their nodes.

        Args:
            claims: NodeClaims for which `detail` has an answer.
            buys: False allows existing nodes only.
            closed: names of more Nodes that must take no pods in this plan.
            extra_places: by ID of a capacity reservation, how many places it gets when the nodes leave (N15-247).
            versions: by name, NodePools that launch another version than usual for these pods.
            expired: ends the solve early; pods that it did not reach are ``unreached``.

        Returns:
            The plan. The nodes can leave only if every pod has a place in it (`is_complete`).
        """
        names = tuple(claims)
        if extra_places or versions:
            return self._plan(names, buys, closed, extra_places, versions, expired)
        key = (names, buys, frozenset(closed))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(names, buys, closed, None, None, expired)
            if not expired():
                self._plans[key] = plan
        return plan

    def _plan(
        self,
        claims: Iterable[str],
        buys: bool,
        closed: Collection[str],
        extra_places: Mapping[str, int] | None,
        versions: Mapping[str, Pool] | None,
        expired: Expired,
    ) -> Plan:
        leaving = [self._details[claim] for claim in claims]
        pods = tuple(pod for detail in leaving for pod in detail.pods)
        problem = self._without(leaving, pods=pods, buys=buys)
        if extra_places:
            problem = replace(problem, pools=with_places_credited(problem.pools, extra_places))
        if versions:
            problem = replace(problem, pools=[_in_version(pool, versions) for pool in problem.pools])
        if closed:
            problem = replace(
                problem,
                nodes=[replace(node, closed=True) if node.name in closed else node for node in problem.nodes],
            )
        small = replace(problem, nodes=_that_matter(problem))
        plan = solve_within_costs(small, lambda limited: solve(limited, expired, self._tables, facts=self._facts))
        return follow_goals(plan, problem)

    def accept(self, claims: Iterable[str], plan: Plan, extra_places: Mapping[str, int] | None = None) -> None:
        """Change the model as the plan says. Its new nodes take no other pods, but rules between pods count theirs.

        ``extra_places``: those that the plan was made with.
        """
        names = list(claims)
        self._plans.clear()
        remaining = self._without([self._details[claim] for claim in names], pods=(), buys=True)
        self._nodes = {node.name: node.with_pods(plan.placements.get(node.name, ())) for node in remaining.nodes}
        pools = with_places_credited(remaining.pools, extra_places or {})
        self._pools = {pool.name: pool for pool in pools_after(pools, plan.claims)}
        for number, claim in enumerate(plan.claims):
            node = new_node(new_name(names, number), claim, self._pools[claim.pool])
            self._nodes[node.name] = replace(node, closed=True)

    def problem(self) -> Problem:
        """Return the cluster as the removals so far leave it."""
        return replace(self._problem, nodes=list(self._nodes.values()), pools=list(self._pools.values()))

    def _without(self, leaving: Collection[NodeDetail], *, pods: tuple[Pod, ...], buys: bool) -> Problem:
        leaving_nodes = {detail.node for detail in leaving}
        freed: dict[str, list[Node]] = {}
        for name in leaving_nodes:
            node = self._nodes[name]
            freed.setdefault(node.labels.get(labels.NODEPOOL, ""), []).append(node)
        cost = total_cost(self._nodes[name] for name in leaving_nodes)
        pools = [
            _eased(pool, freed.get(name, ()), cost) if buys else at_limit(pool) for name, pool in self._pools.items()
        ]
        nodes = [node for name, node in self._nodes.items() if name not in leaving_nodes]
        return replace(self._problem, pods=pods, nodes=nodes, pools=pools)


def after_commands(model: ClusterModel, commands: Sequence[Command]) -> ClusterModel:
    """Return the model for the methods that choose after these commands, so that nothing is promised twice.

    Room on existing nodes, limits of NodePools and places in capacity reservations count as used. What is known of the
    nodes that leave stays known. Those of static NodePools also stay in the cluster, because no plan places their pods.
    """
    rescheduler = Rescheduler(model)
    without_move: list[PlannedClaim] = []
    credited: Counter[str] = Counter()
    for command in commands:
        names = [
            candidate.node.claim
            for candidate in command.candidates
            if rescheduler.detail(candidate.node.claim) is not None
        ]
        new_claims, freed = command.new_claims, command.freed_places
        if not names or any(claim.pool in model.static_pools for claim in new_claims):
            without_move += new_claims
            credited.update(freed)
        else:
            rescheduler.accept(names, Plan(new_claims, command.destinations), freed)
    problem = rescheduler.problem()
    every = [claim for command in commands for claim in command.new_claims]
    freed_places = Counter(name for command in commands for name in command.freed_places)
    static = with_places_taken(with_places_credited(model.static_pools.values(), freed_places), every)
    return replace(
        model,
        problem=replace(problem, pools=with_places_taken(with_places_credited(problem.pools, credited), without_move)),
        static_pools={pool.name: pool for pool in static},
    )


def after_moves(model: ClusterModel, moves: Sequence[Move]) -> ClusterModel:
    """Return the model for a search that adds to these moves. What is known of the nodes that leave stays known."""
    if not moves:
        return model
    rescheduler = Rescheduler(model)
    for move in moves:
        rescheduler.accept(move.claims, move.plan)
    return replace(model, problem=rescheduler.problem())


def nodes_in_commands(situation: Situation, model: ClusterModel) -> frozenset[str]:
    """Return the names of Nodes whose room is not free: those that leave or reboot, and the new nodes of commands."""
    nodes = set()
    for node in situation.nodes:
        is_busy = node.leaving or node.rebooting or node.disrupted_by or node.replacement_for
        if is_busy or node.claim in situation.under_command:
            detail = model.details.get(node.claim)
            nodes.add(detail.node if detail is not None else node.node)
    return frozenset(nodes)


def is_complete(plan: Plan) -> bool:
    """Whether every pod has a place."""
    return not plan.unschedulable and not plan.unreached


def serves(replacements: Iterable[tuple[str, frozenset[str] | None]], claims: Iterable[PlannedClaim]) -> bool:
    """Whether each planned NodeClaim has a replacement of its own that is one of its instance types for certain.

    It takes the first one that serves, so it may say no although another choice would serve all.

    Args:
        replacements: the NodePool of each, and the types that EC2 may choose; None if nothing lists them.
        claims: the planned NodeClaims.
    """
    unmatched_replacements = list(replacements)
    for claim in sorted(claims, key=lambda claim: len(claim.instance_types)):  # the one with the least choice first
        types = set(claim.instance_types)
        serving = next(
            (
                (pool, listed)
                for pool, listed in unmatched_replacements
                if pool == claim.pool and listed is not None and listed <= types
            ),
            None,
        )
        if serving is None:
            return False
        unmatched_replacements.remove(serving)
    return True


def _that_matter(problem: Problem) -> Sequence[Node]:
    """Return the nodes without those that cannot affect the plan: full ones, if there are no rules between pods.

    Consolidation asks about many small sets of pods on clusters whose nodes are mostly full.
    """
    if problem.most_pods_share < 1 or any(pod.rules for pod in problem.pods):
        return problem.nodes
    least = {name: min((pod.requests.get(name, 0) for pod in problem.pods), default=0) for name in (CPU, MEMORY, PODS)}
    return [
        node
        for node in problem.nodes
        if any(pod.rules for pod in node.pods)
        or not (
            node.closed
            or any(node.allocatable.get(name, 0) - node.used.get(name, 0) < amount for name, amount in least.items())
        )
    ]


def _in_version(pool: Pool, versions: Mapping[str, Pool]) -> Pool:
    """Return the pool as it launches another version. Its limits and what counts against them are the same."""
    version = versions.get(pool.name)
    return replace(version, usage=pool.usage, limits=pool.limits) if version is not None else pool


def _eased(pool: Pool, leaving_nodes: Collection[Node], cost: int) -> Pool:
    """Return the pool without the nodes' share of its limits: a replacement may use it before they are gone.

    ``cost`` is what all nodes that leave, also those of other pools, cost.
    """
    if not (leaving_nodes or cost) or not pool.limits:
        return pool
    freed = add(*(node.limited for node in leaving_nodes), {NODES: len(leaving_nodes)})
    if cost:
        freed[TOTAL_HOURLY_COST] = cost
    return replace(pool, usage=_at_least_zero(subtract(pool.usage, freed)))


def _at_least_zero(resources: Resources) -> Resources:
    return maximum(resources, dict.fromkeys(resources, 0))
