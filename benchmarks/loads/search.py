"""Looks for plans that are better than the engine's, with minutes where the engine has milliseconds.

Many packings of single nodes are collected for each NodePool, and an integer program chooses among them. Pods stay in
the domains, such as zones, that the engine chose, and NodePools of higher weight keep as many pods. Each plan is judged
by `tests/oracle`, which shares no code with the engine, so that a best known plan is a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import highspy
import numpy as np

from benchmarks.judges import catalogue_of
from benchmarks.loads.cases import Load
from benchmarks.random_cases import Case
from tenon.kube.pool_reasons import NoPlace, ObstacleKind
from tenon.scheduling.claim_builder import claims_of
from tenon.scheduling.column_generation.column_packing import better_nodes, merged_load, packings_of
from tenon.scheduling.column_generation.columns import Master, NodePacking, trimmed
from tenon.scheduling.column_generation.node_filling import fill
from tenon.scheduling.column_generation.node_options import NodeOptions, Source
from tenon.scheduling.deadline import never
from tenon.scheduling.engine import fleets_of
from tenon.scheduling.limited.limited_columns import LimitedMaster, Rations
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.packing.bins import Bin
from tenon.scheduling.packing.bins import Load as PodLoad
from tenon.scheduling.packing.first_fit import close
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.packing.load_partition import joined_state
from tenon.scheduling.pods.pod_classes import group, resource_names
from tenon.simulation.document import LowerBounds, plan_document
from tests.oracle.judging import judge

TRIES = 100
"""How often a few nodes are taken apart."""
SAMPLES = 12
"""How many random values of pods packings are collected for."""
UNPLACED = 1_000.0
"""Dollars an hour for a pod without a place, so that the number of pods comes before the cost."""
SEED = 7


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of a fleet, and packings for them."""

    fleet: Fleet
    options: NodeOptions
    packings: list[NodePacking]


def search(problem: Problem, seconds: float) -> Iterator[tuple[Plan, str]]:
    """Yield other plans for the problem of a load, each with how it was found."""
    fleets = fleets_of(problem)
    limited = any(not fleet.limits.unlimited for fleet in fleets)
    names = resource_names([*problem.pods, *problem.daemons])
    loads: list[PodLoad] = (
        [[(pod_class, len(pod_class.pods)) for pod_class in group(problem.pods, names)]] * len(fleets)
        if limited
        else [merged_load(_free(fleet)) for fleet in fleets]
    )
    parts = [_collected(fleet, pods) for fleet, pods in zip(fleets, loads, strict=True) if pods]
    for part, pods in zip(parts, filter(None, loads), strict=True):
        if not limited:
            _taken_apart(part, pods)
    yield _plan(problem, fleets), f"the engine's program with {TRIES} tries"
    groups = [parts] if limited else [[part] for part in parts]
    texts = []
    for together in groups:
        bought, text = _chosen(together, seconds)
        texts.append(text)
        for part, packings in zip(together, bought, strict=True):
            _replace(part, packings)
    yield _plan(problem, fleets), "; ".join(texts)


def _taken_apart(part: Part, pods: PodLoad) -> None:
    """Improve the fleet's nodes with more tries, and add the nodes to the packings."""
    fleet, free = part.fleet, _free(part.fleet)
    bins = better_nodes(fleet.template, pods, _limits(fleet), free, TRIES)
    if bins is not None:
        fleet.replace([*(node for node in fleet.bins if node not in free), *bins], fleet.limits)
        part.packings.extend(packings_of(bins, pods))


def _limits(fleet: Fleet) -> Limits:
    """What the fleet may launch without any nodes; nothing is limited if no plan for these pods reaches the limits."""
    limits = Limits(fleet.template.pool, fleet.template.table)
    if fleet.limits.unlimited:
        limits.drop()
    return limits


def _free(fleet: Fleet) -> list[Bin]:
    return [node for node in fleet.bins if not any(pod_class.near for pod_class, _ in node.load)]


def _collected(fleet: Fleet, pods: PodLoad) -> Part:
    """Collect packings: those of the engine's nodes and of the linear program, and those for random values of pods."""
    template = fleet.template
    limits = _limits(fleet)
    shared = {name: number for number, name in enumerate(limits.remaining)}
    own = [pair for pair in pods if fleet.suits(pair[0])]
    options = NodeOptions([Source(template, limits, shared)], own, list(limits.remaining.values()))
    if fleet.limits.unlimited:
        master = Master(options, options.counts)
        master.add(packings_of(_free(fleet), pods))
    else:
        rations = Rations(
            limits=np.ones(len(shared)),
            penalty=np.full(len(own), UNPLACED),
            forced=np.zeros_like(options.counts),
            optional=options.counts,
            forced_in_all=0,
            preferred=np.zeros((0, 1), dtype=bool),
            least=np.zeros(0, dtype=np.int64),
        )
        master = LimitedMaster(options, options.counts, rations)
    values = [master.converge(20, never).prices.worth, options.worth()]
    draw = np.random.default_rng(SEED)
    for sample in range(SAMPLES):
        worth = values[sample % len(values)] * np.exp(draw.normal(0, 0.15, len(options.classes)))
        price = options.price
        for column in range(options.usage.shape[1]):  # as if the limits had a price
            price = price + draw.exponential(0.1) * options.usage[:, column] / max(1.0, options.usage[:, column].mean())
        filled = fill(options, worth, options.counts)
        order = np.argsort(-(filled.value / price[filled.rows]), kind="stable")[:60]
        master.add(
            [
                NodePacking(
                    type=int(options.types[row]),
                    pods=filled.pods[n],
                    cost=float(options.price[row]),
                    usage=tuple(options.usage[row].tolist()),
                )
                for n, row in zip(order.tolist(), filled.rows[order].tolist(), strict=True)
            ]
        )
    return Part(fleet, options, master.packings)


def _chosen(parts: Sequence[Part], seconds: float) -> tuple[list[list[NodePacking]], str]:
    """Solve the integer program over the packings of all parts, which compete for the same pods."""
    classes = list(dict.fromkeys(pod_class.origin for part in parts for pod_class in part.options.classes))
    single = len(parts) == 1
    keys = parts[0].options.classes if single else classes
    rows = {id(pod_class): number for number, pod_class in enumerate(keys)}
    counts = np.zeros(len(keys))
    for part in parts:
        for pod_class, count in zip(part.options.classes, part.options.counts.tolist(), strict=True):
            counts[rows[id(pod_class)]] = count
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds), ("mip_rel_gap", 1e-5)):
        solver.setOptionValue(name, value)
    for count in counts.tolist():
        solver.addRow(count, highspy.kHighsInf, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
    first_limit = []
    for part in parts:
        first_limit.append(solver.getNumRow())
        for amount in _limits(part.fleet).remaining.values():
            solver.addRow(-highspy.kHighsInf, 1.0, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
            assert amount >= 0
    least_pods = {part.fleet.template.pool.weight: 0 for part in parts}
    for part in parts:
        for node in part.fleet.bins:
            for weight in least_pods:
                if part.fleet.template.pool.weight >= weight:
                    least_pods[weight] += sum(count for _, count in node.load)
    del least_pods[min(least_pods)]
    first_weight = solver.getNumRow()
    for pods_held in least_pods.values():
        solver.addRow(pods_held, highspy.kHighsInf, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
    for number in range(len(keys)):
        solver.addCol(UNPLACED, 0, counts[number], 1, np.array([number], dtype=np.int32), np.ones(1))
    integers = []
    for part, limit_row in zip(parts, first_limit, strict=True):
        heavier = [number for number, weight in enumerate(least_pods) if part.fleet.template.pool.weight >= weight]
        for packing in part.packings:
            class_numbers = np.flatnonzero(packing.pods)
            index = [rows[id(part.options.classes[number])] for number in class_numbers.tolist()]
            index += [limit_row + number for number in range(len(packing.usage))]
            index += [first_weight + number for number in heavier]
            in_all = [float(packing.pods.sum())] * len(heavier)
            values = np.concatenate([packing.pods[class_numbers].astype(float), packing.usage, in_all])
            integers.append(solver.getNumCol())
            solver.addCol(packing.cost, 0, highspy.kHighsInf, len(index), np.array(index, dtype=np.int32), values)
    kinds = np.full(len(integers), highspy.HighsVarType.kInteger)
    solver.changeColsIntegrality(len(integers), np.array(integers, dtype=np.int32), kinds)
    solver.run()
    times = np.round(np.array(solver.getSolution().col_value)[len(keys) :]).astype(int)
    gap = solver.getInfo().mip_gap
    bought, position = [], 0
    waiting = counts.astype(np.int64)
    for part in parts:
        where = np.array([rows[id(pod_class)] for pod_class in part.options.classes])
        packings = []
        for packing in part.packings:
            for _ in range(times[position]):
                pods = np.minimum(packing.pods, waiting[where])
                waiting[where] -= pods
                packings += (
                    trimmed(part.options, pods[None]) if part.fleet.limits.unlimited else [replace(packing, pods=pods)]
                )
            position += 1
        bought.append(packings)
    total = sum(len(part.packings) for part in parts)
    return bought, f"integer program over {total} packings, gap {gap:.1%}"


def _replace(part: Part, packings: Sequence[NodePacking]) -> None:
    """Give the fleet the nodes of these packings, besides those of pods that must share a node."""
    fleet, template = part.fleet, part.fleet.template
    limits = _limits(fleet)
    bins = [node for node in fleet.bins if node not in _free(fleet)]
    for packing in packings:
        pods = [(part.options.classes[number], int(packing.pods[number])) for number in np.flatnonzero(packing.pods)]
        if not pods:
            continue
        node = Bin(template, limits.allowed(template.start.types), 1 << packing.type)
        state = joined_state(template, template.start, pods)
        if state is None or not node.stack(pods, state):
            for pod_class, count in pods:
                node.add(pod_class, count)
        if node.load:
            close(node, limits)
            bins.append(node)
    fleet.replace(bins, limits)


def _plan(problem: Problem, fleets: Sequence[Fleet]) -> Plan:
    handed_out: dict[int, int] = {}
    claims = tuple(claim for fleet in fleets for claim in claims_of(fleet, handed_out))
    placed = {pod.key for claim in claims for pod in claim.pods}
    full = NoPlace.of("the limits leave no room", ObstacleKind.LIMITS)
    return Plan(claims, {}, {pod.key: full for pod in problem.pods if pod.key not in placed})


def violations(load: Load, problem: Problem, plan: Plan) -> int:
    """Return how many rules the plan breaks, as the oracle finds."""
    document = plan_document(plan, problem=problem, solve_seconds=0.0, lower_bounds=LowerBounds())
    case = Case(load.number, load.manifests(), None)
    return sum(1 for _ in judge(case.manifests, catalogue_of(case), document))
