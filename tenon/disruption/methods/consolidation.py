"""Removes nodes whose pods run cheaper elsewhere: on the other nodes, or on fewer or cheaper new ones (DIS-04, DIS-05).

It looks at sets of nodes of any size, not at one node or at the first 100, and several new nodes may replace them. In
a large cluster, each pass considers the next part of the nodes (`tenon.disruption.search.turns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from tenon.apis.approvals import ApprovalRule
from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.decision import Candidate, Command, Proposal
from tenon.disruption.methods.balanced import LEAST_SCORE, Balance
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.rules.approvals import consolidation_rules, needed_by_waiting
from tenon.disruption.rules.consolidatable import takes_pods
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.consolidation_price import LEAST_SAVING, PriceRule, is_reserved
from tenon.disruption.search.consolidation_search import search
from tenon.disruption.search.least_saving import LeastSavings
from tenon.disruption.search.move_planner import MoveTerms
from tenon.disruption.search.moves import Move
from tenon.disruption.search.moves_together import stand_together
from tenon.disruption.search.rescheduling import after_moves, nodes_in_commands
from tenon.disruption.search.turns import by_price_per_cost, known_pools, next_turn
from tenon.disruption.situation import Situation
from tenon.money import per_hour
from tenon.scheduling.deadline import Expired, never
from tenon.sentences import counted, first_few

SHOWN = 5
"""How many nodes an explanation names."""


def _no_limit() -> Expired:
    return never


class Consolidation:
    """Chooses moves that save money, each a command of its own."""

    name = "consolidation"
    reason = Reason.UNDERUTILIZED
    consolidation_type = "multi"

    def __init__(
        self,
        *,
        spot_to_spot: bool = False,
        least_saving: float = LEAST_SAVING,
        deadline: Callable[[], Expired] = _no_limit,
    ) -> None:
        """Set the limits of the search.

        Args:
            spot_to_spot: replace spot nodes by spot nodes (feature gate SpotToSpotConsolidation).
            least_saving: dollars an hour that each command must save.
            deadline: called once for each decision. When what it returns becomes true, the search returns the moves
                found so far.
        """
        self._spot_to_spot = spot_to_spot
        self._least_saving = least_saving
        self._deadline = deadline

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        """Return that the node has pods, which may run at a lower price elsewhere."""
        if node.empty or (situation.model is not None and not ((detail := situation.detail_of(node)) and detail.pods)):
            return ""
        return "its pods may run at a lower price elsewhere"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        """Return the moves to start now."""
        model = situation.model
        if model is None:
            return Proposal()
        candidates = {node.claim: node for node in eligible if node.claim in model.details}
        balance = Balance(situation, model)
        terms = MoveTerms(
            rule=PriceRule(
                model.problem,
                spot_to_spot=self._spot_to_spot,
                least_saving=self._least_saving,
                asked_saving=LeastSavings(situation).of,
            ),
            approves=balance.approves,
            pool_of={claim: node.pool for claim, node in candidates.items()},
            closed=closed_nodes(situation, model),
            expired=self._deadline(),
        )
        remaining_budgets = {pool: budgets.left(pool) for pool in {node.pool for node in candidates.values()}}
        affordable = {claim: node.pool for claim, node in candidates.items() if remaining_budgets[node.pool] > 0}
        turn = None
        if situation.cursor is not None:
            turn = next_turn(affordable, model.details, known_pools(situation.cursor, situation.policies))
        order = by_price_per_cost(affordable, model.details) if turn is None else turn.claims
        began_late = terms.expired()
        try:
            rules = consolidation_rules(candidates.values(), situation)
            moves = _paced(_moves(model, order, remaining_budgets, terms, rules), terms.pool_of, situation)
        except Exception as error:  # a node that the engine fails on must not keep later passes from the others
            cursor = situation.cursor if turn is None else turn.following(failed=True)
            return Proposal(cursor=cursor, failed=error)
        for move in moves:
            for claim in move.claims:
                budgets.take(candidates[claim].pool)
        commands = tuple(
            self._command(move, _leaving_now(move, candidates, model, situation.now), model, balance) for move in moves
        )
        moving = {claim for move in moves for claim in move.claims}
        staying: dict[str, str] = {}
        expired = terms.expired()
        if not expired:  # otherwise not every node was tried
            tried = [claim for claim in order if claim not in moving and candidates[claim].pool not in situation.slowed]
            staying = {claim: _why_not_moved(model.details[claim], claim, terms.rule, balance) for claim in tried}
        judged = ((_details(move, model), move.expected) for move in moves)
        return Proposal(
            commands,
            unconsolidatable=staying,
            verdicts=balance.verdicts(judged),
            cursor=situation.cursor if turn is None or began_late else turn.following(expired=expired),
        )

    def _command(self, move: Move, candidates: tuple[Candidate, ...], model: ClusterModel, balance: Balance) -> Command:
        details = _details(move, model)
        return Command(
            method=self.name,
            reason=self.reason,
            consolidation_type="single" if len(move.claims) == 1 else "multi",
            candidates=candidates,
            replacements=move.plan.claims,
            destinations=dict(move.plan.placements),
            moves_pods=True,
            guaranteed_saving=move.guaranteed_saving,
            expected=move.expected,
            explanation=explain(move, details, balance.scores(details, move.expected)),
        )


def _moves(
    model: ClusterModel,
    order: Sequence[str],
    allowances: Mapping[str, int],
    terms: MoveTerms,
    rules: Mapping[str, ApprovalRule | None],
) -> list[Move]:
    """Return moves that can all be carried out, each of nodes whose NodePools ask a person the same.

    Nodes of NodePools that ask nothing come first, so that they leave as if no other NodePool asked.
    """
    candidates: dict[ApprovalRule | None, list[str]] = {None: []}
    for claim in order:
        candidates.setdefault(rules.get(claim), []).append(claim)
    moves: list[Move] = []
    for claims in candidates.values():
        hosts = {name for move in moves for name in move.plan.placements}
        free = [claim for claim in claims if model.details[claim].node not in hosts]
        if free:
            moves += _standing(model, moves, search(after_moves(model, moves), free, allowances, terms))
    return moves


def _standing(model: ClusterModel, earlier: Sequence[Move], moves: Sequence[Move]) -> list[Move]:
    """Return the moves that leave the pods of earlier ones, and of each other, where they are planned."""
    standing: list[Move] = []
    for move in moves:
        if not earlier or stand_together(model, [*earlier, *standing, move]):
            standing.append(move)
    return standing


def _paced(moves: Sequence[Move], pool_of: Mapping[str, str], situation: Situation) -> list[Move]:
    """Return the moves with at most one for each NodePool that is slowed down."""
    begun: set[str] = set()
    paced = []
    for move in moves:
        pools = {pool_of[claim] for claim in move.claims} & situation.slowed.keys()
        if begun.isdisjoint(pools):
            begun |= pools
            paced.append(move)
    return paced


def _details(move: Move, model: ClusterModel) -> dict[str, NodeDetail]:
    return {claim: model.details[claim] for claim in move.claims}


def _why_not_moved(detail: NodeDetail, claim: str, rule: PriceRule, balance: Balance) -> str:
    """Return why the search found no move for a candidate. Has no figures, so that the event stays the same."""
    if balance.refuses(claim):
        return "for its NodePool's policy Balanced, moving its pods disrupts too much for what it saves"
    if not rule.is_free(detail):
        return "its pods fit on no other nodes, and spot nodes are replaced only with the gate SpotToSpotConsolidation"
    return "there is neither room for its pods on other nodes nor a cheaper new node for them"


def _leaving_now(
    move: Move, nodes: Mapping[str, ManagedNode], model: ClusterModel, now: datetime
) -> tuple[Candidate, ...]:
    return tuple(Candidate(nodes[claim], since=model.details[claim].quiet_since or now) for claim in move.claims)


def closed_nodes(situation: Situation, model: ClusterModel) -> frozenset[str]:
    """Return the names of Nodes that take no pods.

    They are on their way out, inside consolidateAfter (DIS-31), or new nodes of open commands, whose room is taken.
    Nodes that were bought in a capacity shortage are to be replaced, so they take none either. Commands that wait for
    a person may need the room of others.
    """
    shortage = {_node_of(node, model) for node in situation.nodes if node.bought_in_shortage}
    early = {_node_of(node, model) for node in nodes_within_consolidate_after(situation)}
    needed = {_node_of(node, model) for node in needed_by_waiting(situation)} if situation.approvals else set()
    return frozenset({*nodes_in_commands(situation, model), *shortage, *early, *needed})


def nodes_within_consolidate_after(situation: Situation) -> list[ManagedNode]:
    """Return the nodes that take no pods because consolidateAfter is not over for them (DIS-31)."""
    policies, now = situation.policies, situation.now
    return [
        node for node in situation.nodes if not takes_pods(policies.get(node.pool), situation.quiet_since_of(node), now)
    ]


def _node_of(node: ManagedNode, model: ClusterModel) -> str:
    detail = model.details.get(node.claim)
    return detail.node if detail is not None else node.node


def explain(move: Move, details: Mapping[str, NodeDetail], scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return a few lines on why a move is made: what leaves, what comes, what it saves, what it disrupts."""
    leaving = [
        f"{detail.node} ({detail.instance_type}, {detail.capacity_type}, {detail.zone}, {per_hour(detail.price)}, "
        f"{counted(len(detail.pods), 'pod')})"
        for detail in details.values()
    ]
    lines = [f"Removes {counted(len(leaving), 'node')}: {first_few(leaving, SHOWN)}"]
    plan = move.plan
    for claim in plan.claims[:SHOWN]:
        capacity_type, instance_type, zone = claim.offering[:3]
        others = len(claim.instance_types) - 1
        choice = f" or one of {counted(others, 'other type')}" if others else ""
        lines.append(
            f"Launches a node of NodePool {claim.pool} for {counted(len(claim.pods), 'pod')}: "
            f"{instance_type} ({capacity_type}, {zone}, {per_hour(claim.price)}){choice}"
        )
    if len(plan.claims) > SHOWN:
        lines.append(f"Launches {counted(len(plan.claims) - SHOWN, 'more node')}")
    if plan.placements:
        hosts = Counter({node: len(pods) for node, pods in sorted(plan.placements.items())})
        moved = sum(hosts.values())
        shown_hosts = first_few(list(hosts), SHOWN)
        lines.append(f"Moves {counted(moved, 'pod')} to {counted(len(hosts), 'existing node')}: {shown_hosts}")
    saving = f"Saves {per_hour(move.expected)}"
    if plan.claims:
        saving += f", at least {per_hour(move.guaranteed_saving)} if EC2 launches more expensive types"
    elif is_reserved(details.values()):
        saving = f"Frees {counted(len(leaving), 'place')} in capacity reservations, which are paid for either way"
    lines.append(saving)
    for pool, score in scores.items():
        lines.append(f"NodePool {pool} is Balanced: the move scores {score:.2f} of {LEAST_SCORE:g}")
    return tuple(lines)
