"""Plans one batch: pods first, then the capacity that CapacityBuffers reserve.

A buffer must never cost a pod its place. Pending pods therefore use existing capacity first, and determine the zones in
which nodes are bought for them. New nodes are then sized for pods and buffers together. If limits or rules between pods
do not allow both, the buffers wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.kube.requirements import Requirements
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.goals import follow_goals
from tenon.scheduling.model import Plan, PlannedClaim, Problem
from tenon.scheduling.most_pods import solve_for_most_pods
from tenon.scheduling.offerings.type_table import TypeTables

NO_ROOM = NoPlace.of("there is no room for it in addition to the waiting pods")


class BatchSolver:
    """Solves one batch after another, and indexes a list of instance types once for all of them."""

    def __init__(self) -> None:
        self._tables = TypeTables()
        self._columns = Columns()

    def take_failures(self) -> list[str]:
        """Return why programs failed since the last call. The plans keep the nodes that were packed without them."""
        failures, self._columns = self._columns.failures, Columns()
        return failures

    def __call__(self, problem: Problem, expired: Expired = never) -> Plan:
        """Return the plan for pods and for the pods that buffers stand for, as `solve_with_buffers` does."""
        tables = TypeTables(self._tables)  # without the tables of lists that the last batch did not use
        plan = solve_with_buffers(problem, expired, tables, self._columns)
        if tables.used:
            self._tables = tables
        return plan


def solve_with_buffers(
    problem: Problem, expired: Expired = never, tables: TypeTables | None = None, columns: Columns | None = None
) -> Plan:
    """Return the plan for pods and for the pods that buffers stand for.

    A buffer's pod with the namespace and name of an existing pod is left out. When the time has ``expired``, returns
    the plan made so far. ``tables``: the indexes of the instance types, if they were made before.
    ``columns`` collects why programs failed.
    """
    return follow_goals(_solved(problem, expired, tables or TypeTables(), columns or Columns()), problem)


def _solved(problem: Problem, expired: Expired, tables: TypeTables, columns: Columns) -> Plan:
    waiting = [pod for pod in problem.pods if not pod.buffer]
    names = {pod.key for pod in waiting}
    standing = [pod for pod in problem.pods if pod.buffer and pod.key not in names]
    if not standing:
        return solve_for_most_pods(replace(problem, pods=waiting), expired, tables, columns)
    first = solve_for_most_pods(replace(problem, pods=waiting), expired, tables, columns) if waiting else Plan()
    if first.unreached:
        return replace(first, unreached=first.unreached | {pod.key for pod in standing})
    with_first_pods = replace(
        problem, nodes=[node.with_pods(first.placements.get(node.name, ())) for node in problem.nodes]
    )
    to_buy_for = {pod.key: pod for claim in first.claims for pod in claim.pods}
    keys = {key for pod in (*waiting, *standing) for key in _topology_keys(pod)} - {labels.HOSTNAME}
    combined_plan = solve_for_most_pods(
        replace(with_first_pods, pods=[*_pinned_pods(first.claims, keys), *standing]), expired, tables, columns
    )
    if to_buy_for.keys() <= {pod.key for claim in combined_plan.claims for pod in claim.pods}:
        claims = [replace(c, pods=tuple(to_buy_for.get(pod.key, pod) for pod in c.pods)) for c in combined_plan.claims]
        return Plan(
            tuple(claims),
            _merge_pods(first, combined_plan),
            _merge_reasons(first, combined_plan),
            combined_plan.unreached,
        )
    standing_plan = solve_for_most_pods(replace(with_first_pods, pods=standing, pools=[]), expired, tables, columns)
    refused = {**first.unschedulable, **dict.fromkeys(standing_plan.unschedulable, NO_ROOM)}
    return Plan(
        first.claims,
        _merge_pods(first, standing_plan),
        {key: refused[key] for key in sorted(refused)},
        standing_plan.unreached,
    )


def buffer_pods(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """Return the pods that stand for buffers, by buffer."""
    pods_by_buffer: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.buffer:
            pods_by_buffer.setdefault(pod.buffer, []).append(pod)
    return pods_by_buffer


def _topology_keys(pod: Pod) -> set[str]:
    """Return the topology keys of the pod's spread constraints and affinity terms."""
    return {spread.key for spread in pod.rules.spreads} | {term.key for term in pod.rules.terms}


def _pinned_pods(claims: Sequence[PlannedClaim], keys: Set[str]) -> list[Pod]:
    """Return the pods of the claims, each restricted to its claim's domains of these topologies.

    The first plan satisfies rules between pods among existing pods. Solving again together with the buffers' pods would
    satisfy them only with the buffers counted, but kube-scheduler, which does not know buffers, counts pods only.
    """
    pods = []
    bound: dict[object, tuple[Requirements, ...]] = {}  # shared by pods that are alike: they are packed as one kind
    for claim in claims:
        domains = Requirements.of(*(claim.requirements[key] for key in sorted(keys) if key in claim.requirements))
        for pod in claim.pods:
            if domains and (pod.required_terms, domains) not in bound:
                terms = pod.required_terms or (Requirements(),)
                bound[pod.required_terms, domains] = tuple(term.with_(domains) for term in terms)
            pods.append(replace(pod, required_terms=bound[pod.required_terms, domains]) if domains else pod)
    return pods


def _merge_pods(first: Plan, second: Plan) -> Mapping[str, tuple[Pod, ...]]:
    names = dict.fromkeys([*first.placements, *second.placements])
    return {name: (*first.placements.get(name, ()), *second.placements.get(name, ())) for name in names}


def _merge_reasons(first: Plan, second: Plan) -> Mapping[str, NoPlace]:
    reasons = {**first.unschedulable, **second.unschedulable}
    return {key: reasons[key] for key in sorted(reasons)}
