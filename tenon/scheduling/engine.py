"""Turns a batch of pending pods into a plan: existing nodes first, then the cheapest new nodes.

Pods with preferences or with rules about other pods are placed first, step by step, which fixes the domain of each.
Then all new nodes of a pool are packed again together with the plain pods. This is fast and finds good node sizes. Pods
that are left over get one more attempt. The engine is pure and deterministic: the same problem gives the same plan, in
whatever order its parts come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Clause, NoPlace
from tenon.scheduling.batch import Batch
from tenon.scheduling.claim_builder import claims_of
from tenon.scheduling.column_generation.column_packing import MAX_NODES, repack_by_columns
from tenon.scheduling.column_generation.columns import Columns, ProgramFailedError
from tenon.scheduling.cost_pools import by_capacity_type, one_of_each
from tenon.scheduling.deadline import Expired, never, without_rules
from tenon.scheduling.domain_shares import share_again
from tenon.scheduling.domains.constrained_placement import Placer
from tenon.scheduling.domains.domain_values import Domains
from tenon.scheduling.domains.group_starts import GroupStarts
from tenon.scheduling.domains.topology_counts import TopologyCounts
from tenon.scheduling.existing import existing_nodes
from tenon.scheduling.existing.cluster_facts import ClusterFacts
from tenon.scheduling.explanation.topology_conflicts import obstacle
from tenon.scheduling.explanation.unschedulable_pods import explain
from tenon.scheduling.first_fit_baseline import (
    FleetPlan,
    IsBeaten,
    Order,
    best,
    is_never_beaten,
    is_no_better,
    is_worthwhile,
)
from tenon.scheduling.limited.limited_packing import repack_within_limits
from tenon.scheduling.model import Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.commitments import by_commitment, commitment_of
from tenon.scheduling.offerings.daemons import read_daemons
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.scheduling.packing.bins import Load
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.packing.sizing import repack
from tenon.scheduling.pods.blast_radius import BlastRadius
from tenon.scheduling.pods.exclusive_claims import in_turns
from tenon.scheduling.pods.local_disks import on_their_hosts
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.pods.relaxation import without_preferences
from tenon.scheduling.pods.topology import Topology
from tenon.scheduling.pods.topology_groups import AFFINITY
from tenon.scheduling.reservations import drop_far_limits, is_paid_for, share_limits, used_up
from tenon.scheduling.second_plan import cannot_pay, placement_of


def solve(
    problem: Problem,
    expired: Expired = never,
    tables: TypeTables | None = None,
    last: frozenset[str] = frozenset(),
    *,
    columns: Columns | None = None,
    facts: ClusterFacts | None = None,
) -> Plan:
    """Return the plan for one batch. Each pod is in exactly one part of it. Pods are identified by namespace and name.

    Once the time has ``expired``, the plan is what the engine has found so far. A caller that solves many problems with
    the same lists of instance types passes the same ``tables``, so that each list is indexed once. The pods with the
    keys in ``last`` are placed after all others. With ``columns``, the new nodes are packed again by column generation,
    which takes longer and never makes them dearer. A caller that solves many problems of the same cluster passes the
    same ``facts``.
    """
    type_tables, cluster_facts = tables or TypeTables(), facts or ClusterFacts()
    relaxed_problem = _without_ignored_preferences(problem)

    def plan_of(subproblem: Problem) -> Plan:
        return on_their_hosts(
            subproblem,
            lambda held_problem: _best_plan(held_problem, expired, type_tables, last, columns, cluster_facts),
        )

    return in_turns(relaxed_problem, plan_of, expired)


def solve_by_first_fit(problem: Problem, order: Order, tables: TypeTables | None = None) -> Plan:
    """Return the plan of plain first-fit for the same problem: the baseline for the plans of `solve`."""
    type_tables = tables or TypeTables()
    relaxed_problem = _without_ignored_preferences(problem)
    return in_turns(
        relaxed_problem, lambda subproblem: _complete(Batch(subproblem), never, type_tables, order).plan, never
    )


def fleets_of(problem: Problem, tables: TypeTables | None = None) -> Sequence[Fleet]:
    """Return the new nodes of the plan, with the pods on each, for a search that starts from them."""
    return _complete(Batch(problem), never, tables or TypeTables(), columns=Columns()).fleets


def _best_plan(
    problem: Problem,
    expired: Expired,
    tables: TypeTables,
    last: frozenset[str],
    columns: Columns | None,
    facts: ClusterFacts,
) -> Plan:
    """Return the engine's plan, or that of plain first-fit if it is cheaper."""
    batch = Batch(problem, last, facts)
    fleet_plan = _complete(batch, expired, tables, columns=columns)
    if fleet_plan.comparable and not expired() and not last:
        if columns is not None and batch.spreads():
            # pods that are left over when a group is divided by its zones else all go to the same zone
            other_plan = _complete(
                batch,
                expired,
                tables,
                columns=columns,
                is_beaten=partial(cannot_pay, than=fleet_plan),
                domains_in_turn=True,
            )
            is_better = not other_plan.is_beaten and other_plan.is_better_than(fleet_plan)
            fleet_plan = _with_other_shares(other_plan if is_better else fleet_plan, columns)
        is_beaten = partial(is_no_better, than=fleet_plan)
        fleet_plan = best(
            fleet_plan, [_complete(batch, expired, tables, order, is_beaten=is_beaten) for order in Order]
        )
    return fleet_plan.plan


def _with_other_shares(fleet_plan: FleetPlan, columns: Columns) -> FleetPlan:
    """Return the plan with other numbers of pods in each domain, if its nodes then cost less at no higher price.

    If the solver fails, the nodes stay as they are.
    """
    placer = fleet_plan.placer
    if placer is None or not fleet_plan.places_all():
        return fleet_plan
    try:
        # of one NodePool at most: the placer's counts of pods in each domain do not change with the nodes
        if not any(
            share_again(fleet, placer, lambda: placer.missed_domains() <= fleet_plan.compared)
            for fleet in fleet_plan.fleets
        ):
            return fleet_plan
    except ProgramFailedError as error:
        columns.failures.append(str(error))
        return fleet_plan
    return replace(fleet_plan, plan=replace(fleet_plan.plan, claims=_claims(fleet_plan.fleets, placer)))


def _claims(fleets: Sequence[Fleet], placer: Placer) -> tuple[PlannedClaim, ...]:
    handed_out = dict(placer.handed_out)
    return tuple(claim for fleet in fleets for claim in claims_of(fleet, handed_out))


def _complete(
    batch: Batch,
    expired: Expired,
    tables: TypeTables,
    in_turn: Order | None = None,
    columns: Columns | None = None,
    is_beaten: IsBeaten = is_never_beaten,
    *,
    domains_in_turn: bool = False,
) -> FleetPlan:
    """Return a plan whose spread constraints compared every domain that they should.

    With ``is_beaten``, the plan is incomplete if its nodes are beaten on the way. With ``domains_in_turn``, each class
    of pods begins with another domain.
    """
    compared: frozenset[tuple[int, str]] = frozenset()
    while True:
        if columns is not None:
            columns.least_unplaced = None
        fleet_plan, missed = _solve(
            batch, compared, in_turn, expired, tables, columns, is_beaten, domains_in_turn=domains_in_turn
        )
        if missed <= compared or fleet_plan.is_beaten:
            return fleet_plan
        if expired():
            return replace(fleet_plan, plan=without_rules(fleet_plan.plan))
        compared |= missed


def _solve(
    batch: Batch,
    compared: frozenset[tuple[int, str]],
    in_turn: Order | None,
    expired: Expired,
    tables: TypeTables,
    columns: Columns | None,
    is_beaten: IsBeaten,
    *,
    domains_in_turn: bool,
) -> tuple[FleetPlan, frozenset[tuple[int, str]]]:
    """Return a plan, and the (group, domain) pairs beyond ``compared`` that spread constraints should have compared.

    With ``in_turn``, pods are placed one after another in queue order and stay where they are: plain first-fit.
    """
    problem, topology, names, ways = batch.problem, batch.topology, batch.names, batch.ways
    classes, later = batch.classes, batch.later
    shares = batch.shares()
    rooms = batch.rooms(shares)
    stepwise = [
        pod_class
        for pod_class in classes
        if in_turn is not None or len(ways[id(pod_class)]) > 1 or _depends_on_other_pods(pod_class, topology)
    ]
    stepwise_ids = set(map(id, stepwise))
    bulk = [pod_class for pod_class in classes if id(pod_class) not in stepwise_ids]

    domains = Domains(rooms)
    counts = TopologyCounts(topology, domains, rooms, batch.running(rooms), compared, batch.all_classes())
    placed_counts = [] if stepwise else existing_nodes.place(bulk, rooms, expired)
    fleets: list[Fleet] = []
    if stepwise or sum(placed_counts) < batch.size:
        domains.templates = templates_of(problem, batch.pools, names, topology, shares, expired, tables, batch.facts)
        drop_far_limits(domains.templates, batch.size)
        fleets = [Fleet(template) for template in domains.templates]
        share_limits(fleets)
    starts = GroupStarts(ways[id(pod_class)][-1] for pod_class in chain(stepwise, later))
    placer = Placer(
        rooms,
        fleets,
        counts,
        domains,
        starts=starts,
        evenly=in_turn is Order.EMPTIEST,
        in_turn=domains_in_turn,
        expired=expired,
    )

    stepwise = _in_order(stepwise, ways)
    unplaced = _place_all(
        placer,
        [(pod_class, len(pod_class.pods)) for pod_class in stepwise],
        ways,
        lambda: in_turn is not None and is_beaten(fleets),
    )
    if is_beaten(fleets):
        return FleetPlan(Plan(), fleets, comparable=False, is_beaten=True), frozenset()
    placement = placement_of(fleets if columns is not None else ())
    placed_counts = placed_counts or existing_nodes.place(bulk, rooms, expired)
    placer.handed_out.update({id(c): placed_count for c, placed_count in zip(bulk, placed_counts, strict=True)})
    waiting_load: Load = [
        (c, len(c.pods) - placed_count)
        for c, placed_count in zip(bulk, placed_counts, strict=True)
        if placed_count < len(c.pods)
    ]
    for fleet in fleets if in_turn is None else ():
        waiting_load = repack(fleet, waiting_load)
    if unplaced or (waiting_load and stepwise) or later:
        placer.forget_nodes()
        unplaced = _place_all(placer, unplaced + waiting_load, ways)
        unplaced += _place_all(placer, [(pod_class, len(pod_class.pods)) for pod_class in later], ways)
    else:
        unplaced = waiting_load
    unplaced = _place_spread(placer, unplaced, ways)
    if unplaced and shares.limited and rooms:
        # kube-scheduler ignores shares, so it would bind these pods to existing nodes
        shares.new_nodes_only = True
        placer.forget_nodes()
        unplaced = _place_all(placer, unplaced, ways)
    if columns is not None and placer.missed_domains() <= compared:
        unplaced = _improve(fleets, placer, compared, unplaced, ways, set(map(id, bulk)), columns)
    placements = {room.name: tuple(room.placed) for room in rooms if room.placed}
    claims = _claims(fleets, placer)
    hopeless, unreached = _verdicts(
        unplaced,
        expired,
        lambda unplaced_class: _reason(unplaced_class, fleets, obstacle(ways[id(unplaced_class)][-1], placer, counts)),
    )
    reasons = batch.refusal_reasons | hopeless
    plan = Plan(claims, placements, {key: reasons[key] for key in sorted(reasons)}, unreached)
    comparable = bool(stepwise) and is_worthwhile(batch.size, len(classes), len(claims))
    fleet_plan = FleetPlan(plan, fleets, comparable, placement=placement, placer=placer, compared=compared)
    return fleet_plan, placer.missed_domains()


def _improve(
    fleets: Sequence[Fleet],
    placer: Placer,
    compared: frozenset[tuple[int, str]],
    unplaced: Load,
    ways: dict[int, list[PodClass]],
    free_classes: Collection[int],
    columns: Columns,
) -> Load:
    """Pack the new nodes again by columns, unless a spread constraint then had to compare more domains.

    Return the pods that still have no place. If the solver fails, the nodes stay as they are.
    """

    def accepts() -> bool:
        return placer.missed_domains() <= compared

    improved = False
    try:
        if any(not fleet.limits.unlimited and not is_paid_for(fleet.template.pool) for fleet in fleets):
            still_unplaced = repack_within_limits(fleets, unplaced, free_classes, accepts, columns)
            if still_unplaced is not None:
                improved, unplaced = True, still_unplaced
            elif sum(len(fleet.bins) for fleet in fleets) > MAX_NODES:  # too many together, but not each for itself
                improved = _repack_each([fleet for fleet in fleets if fleet.limits.unlimited], accepts)
        else:
            improved = _repack_each(fleets, accepts)
    except ProgramFailedError as error:
        columns.failures.append(str(error))
    if not improved or not unplaced:
        return unplaced
    placer.forget_nodes()
    return _place_all(placer, unplaced, ways)


def _repack_each(fleets: Sequence[Fleet], accepts: Callable[[], bool]) -> bool:
    """Pack the nodes of each NodePool again by columns. Return whether some are better."""
    return sum(repack_by_columns(fleet, accepts) for fleet in fleets) > 0


def _verdicts(
    unplaced: Load, expired: Expired, why: Callable[[PodClass], NoPlace]
) -> tuple[dict[str, NoPlace], frozenset[str]]:
    """Return why pods have no place, by key, and the keys of pods that may not have been tried in time."""
    hopeless: dict[str, NoPlace] = {}
    unreached: set[str] = set()
    for pod_class, count in unplaced:
        keys = [pod.key for pod in pod_class.pods[len(pod_class.pods) - count :]]
        if expired():
            unreached.update(keys)
        else:
            hopeless.update(dict.fromkeys(keys, why(pod_class)))
    return hopeless, frozenset(unreached)


def _place_all(
    placer: Placer, load: Load, ways: dict[int, list[PodClass]], is_over: Callable[[], bool] = lambda: False
) -> Load:
    """Place pods one class after another, and repeat until nothing changes. Return the pods left over.

    It also ends when it ``is_over``, which is asked after each class.
    """
    progress = bool(load)
    while progress:
        progress, unplaced = False, []
        for pod_class, total in load:
            if is_over():
                return load
            count = total
            for form in ways[id(pod_class)]:
                if count:
                    count -= placer.place(form, count)
            progress = progress or count < total
            if count:
                unplaced.append((pod_class, count))
        load = unplaced
        progress = progress and bool(load)
    return load


def _place_spread(placer: Placer, unplaced: Load, ways: dict[int, list[PodClass]]) -> Load:
    """Try pods with spread constraints again, without domains that only pods with a place could use."""
    relaxed_classes = [ways[id(pod_class)][-1] for pod_class, _ in unplaced]
    if not any(form.area is not None and form.area.spreads for form in relaxed_classes):
        return unplaced
    placer.forget_placed(relaxed_classes)
    return _place_all(placer, unplaced, ways)


def _in_order(stepwise: list[PodClass], ways: dict[int, list[PodClass]]) -> list[PodClass]:
    """Sort classes: groups that must share a node come first, each without interruption, so that no other pods take
    their room. The other classes follow, and classes that wait for others come last. Within that, queue order.
    """
    first_of: dict[tuple[int, ...], int] = {}

    def place(position: int) -> tuple[int, int, int]:
        form = ways[id(stepwise[position])][0]
        if form.near and all(term.counts_itself for term in form.near):
            return 0, first_of.setdefault(tuple(term.group for term in form.near), position), position
        waits = form.near or any(not term.counts_itself for term in (form.area.affine if form.area else ()))
        return (2 if waits else 1), position, position

    return [stepwise[position] for position in sorted(range(len(stepwise)), key=place)]


def _depends_on_other_pods(pod_class: PodClass, topology: Topology) -> bool:
    """Whether the placement depends on more than the node at hand, or other pods wait for these."""
    if pod_class.area is not None or pod_class.near:
        return True
    groups = pod_class.part.counted if pod_class.part is not None else ()
    return any(topology.groups[group].kind == AFFINITY for group in groups)


def templates_of(
    problem: Problem,
    pools: Iterable[Pool],
    names: tuple[str, ...],
    topology: Topology,
    shares: BlastRadius,
    expired: Expired,
    tables: TypeTables,
    facts: ClusterFacts,
) -> list[Template]:
    """The templates of ``pools``, which are those of the problem as `in_order` returns them."""
    daemons = read_daemons(problem.daemons, names, topology)
    pool_type_ids = {id(pool.instance_types) for pool in problem.pools}
    own = TypeTables()  # for lists that only this solve knows: those of reservations
    templates = []
    for split_pool in by_commitment(pools, tables):
        is_kept = id(split_pool.instance_types) in pool_type_ids or bool(commitment_of(split_pool))
        lists = tables if is_kept else own
        templates += [
            facts.template(problem, pool, lists.of(pool.instance_types, names), topology, daemons, shares, expired)
            for pool in by_capacity_type(split_pool, lists)
        ]
    return templates


def _reason(pod_class: PodClass, fleets: Sequence[Fleet], why: str) -> NoPlace:
    """Why pods have no place. Names reservations if the pods may use nothing else of a pool."""
    reserved = used_up(pod_class, fleets)
    unreserved_fleets = [fleet for fleet in fleets if not is_paid_for(fleet.template.pool)]
    templates_and_limits = [
        (fleet.template, fleet.limits)
        for fleet in one_of_each(pod_class, unreserved_fleets)
        if fleet.template.pool.name not in reserved
    ]
    full_reservations = tuple(Clause(name, (obstacle,)) for name, obstacle in reserved.items())
    if reserved and not templates_and_limits:
        return NoPlace(full_reservations)
    return NoPlace((*full_reservations, *explain(pod_class, templates_and_limits, why).clauses))


def _without_ignored_preferences(problem: Problem) -> Problem:
    if not problem.ignore_preferences:
        return problem
    return replace(problem, pods=[_without_preferences(pod) for pod in problem.pods])


def _without_preferences(pod: Pod) -> Pod:
    return replace(pod, rules=without_preferences(pod.rules)) if pod.rules else pod
