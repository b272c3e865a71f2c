"""Plans moves of consolidation with the engine, and checks what each must meet: its price, policies and budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search.consolidation_price import PriceRule
from tenon.disruption.search.moves import Move, independent_parts, joined
from tenon.disruption.search.rescheduling import Rescheduler, is_complete, serves
from tenon.kube.pod import Pod
from tenon.resources import Resources
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.engine import solve
from tenon.scheduling.goals import follow_goals
from tenon.scheduling.model import Plan, PlannedClaim, Pool
from tenon.scheduling.reservations import reservation_of, with_places_taken


@dataclass(frozen=True, slots=True)
class MoveTerms:
    """What a move must meet, apart from having a place for each pod."""

    rule: PriceRule
    approves: Callable[[Mapping[str, NodeDetail], float], bool]
    """Whether the policies of the nodes' pools approve a move that saves so much."""
    pool_of: Mapping[str, str]
    """NodePool by NodeClaim."""
    closed: frozenset[str] = frozenset()
    """Names of Nodes that take no pods."""
    expired: Expired = never


@dataclass
class MoveBudgets:
    """How many more nodes may leave, by pool. Nodes that a move of this search launches are in no pool's budget."""

    remaining: dict[str, int]
    pool_of: Mapping[str, str]

    def take_one(self, claim: str) -> bool:
        """Take one node; False if its pool's budget has none."""
        return self.take((claim,))

    def take(self, claims: Iterable[str]) -> bool:
        """Take nodes from their pools' budgets; False, with nothing taken, if one has not enough."""
        counts = Counter(self.pool_of[claim] for claim in claims if claim in self.pool_of)
        if any(self.remaining.get(pool, 0) < count for pool, count in counts.items()):
            return False
        for pool, count in counts.items():
            self.remaining[pool] -= count
        return True


@dataclass
class Planner:
    """The cluster with the moves accepted so far, and the engine's plans on it."""

    model: ClusterModel
    terms: MoveTerms
    rescheduler: Rescheduler = field(init=False)

    def __post_init__(self) -> None:
        self.rescheduler = Rescheduler(self.model, self.terms.closed)

    def moves_of(self, claims: Sequence[str], closed: Collection[str] = frozenset()) -> list[Move]:
        """Return the independent moves in the engine's plan for these nodes that meet the terms. Accepts none."""
        kept_claims = list(claims)
        while kept_claims:
            plan = self.rescheduler.simulate(kept_claims, closed=closed, expired=self.terms.expired)
            parts = independent_parts(plan, kept_claims, self.model.details)
            moves = [move for part, own in parts if (move := self.priced(part, own)) is not None]
            staying = sum(len(move.claims) for move in moves)
            if staying == len(kept_claims) or not has_rules(plan):
                return moves
            # rules between pods were judged with all of these nodes gone
            kept_claims = [claim for move in moves for claim in move.claims]
        return []

    def priced(self, claims: tuple[str, ...], plan: Plan) -> Move | None:
        """Return the plan as a move; None if it does not meet the terms."""
        leaving = {claim: self.model.details[claim] for claim in claims}
        bill = self.terms.rule.bill(list(leaving.values()), plan.claims)
        if bill is None or not self.terms.approves(leaving, bill.expected):
            return None
        more_nodes = len(bill.replacements) - len(claims)
        if bill.expected <= self.model.problem.node_charge * more_nodes:
            return None
        return Move(claims, Plan(bill.replacements, plan.placements), bill.guaranteed_saving, bill.expected)

    def larger(self, planned: PlannedClaim, more: Sequence[Pod]) -> PlannedClaim | None:
        """Return the new node with more pods; None if they do not fit on one, or have rules about other pods.

        None also if it would launch into another reservation, whose places other moves may use.
        """
        pods = (*planned.pods, *more)
        if any(pod.rules for pod in pods):
            return None
        pools = [replace(pool, limits=None) for pool in self.model.problem.pools if pool.name == planned.pool]
        alone = replace(self.model.problem, pods=pods, pools=pools, nodes=())
        plan = follow_goals(solve(alone, self.terms.expired, self.model.tables), self.model.problem)
        if not is_complete(plan) or len(plan.claims) != 1:
            return None
        (larger_claim,) = plan.claims
        if reservation_of(larger_claim) not in {"", reservation_of(planned)}:
            return None
        limited = _largest(larger_claim, pools, planned.largest.keys() - larger_claim.largest.keys())
        return replace(larger_claim, largest={**larger_claim.largest, **limited})

    def accept(self, moves: Sequence[Move]) -> None:
        """Change the cluster as the moves say."""
        if moves:
            self.rescheduler.accept([claim for move in moves for claim in move.claims], joined([m.plan for m in moves]))


def _largest(claim: PlannedClaim, pools: Iterable[Pool], names: Iterable[str]) -> Resources:
    """Return the most that any type of the claim has of each of these resources."""
    names_of_types = set(claim.instance_types)
    types = [kind for pool in pools for kind in pool.instance_types if kind.name in names_of_types]
    return {name: max(kind.capacity.get(name, 0) for kind in types) for name in names}


def has_rules(plan: Plan) -> bool:
    """Whether a pod of the plan has rules about other pods."""
    return any(pod.rules for claim in plan.claims for pod in claim.pods) or any(
        pod.rules for pods in plan.placements.values() for pod in pods
    )


def would_start(model: ClusterModel, terms: MoveTerms, moves: Sequence[Move], others: Sequence[Move]) -> bool:
    """Whether the validation of each move's command accepts it if nothing changes until then.

    It plans each move alone, on the cluster in which no node has left. Of the other moves, only places in capacity
    reservations count as used: if the validation comes before their launch, the next pass decides again.
    """
    for move in moves:
        rest = [other for other in (*moves, *others) if other is not move]
        closed = {model.details[claim].node for other in rest for claim in other.claims}
        pools = with_places_taken(model.problem.pools, [planned for other in rest for planned in other.plan.claims])
        as_validated = replace(model, problem=replace(model.problem, pools=pools))
        rescheduler = Rescheduler(as_validated, terms.closed | closed)
        plan = rescheduler.simulate(move.claims, expired=terms.expired)
        if plan.unreached:  # the time of this pass is over: the validation has its own
            continue
        listed = [(planned.pool, frozenset(planned.instance_types)) for planned in move.plan.claims]
        if not is_complete(plan) or not serves(listed, plan.claims):
            return False
    return True
