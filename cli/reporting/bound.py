"""Computes the least that nodes for the pods of NodePools can cost, with the bound of `tenon simulate`.

The built-in catalogue says which types there are and how large they are, and the prices are those of the report. So
both sides of the comparison have the same prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cli.simulating import builtin
from cli.simulating.cluster import FiledCache, fill
from cli.simulating.files import read_catalogue_file
from cli.simulating.live import add_live_objects
from tenon.ec2.types.capacity_reservations import without_reservations
from tenon.ec2.types.instance_types import Prices
from tenon.kube.pod import Pod
from tenon.manifests.faults import ManifestError
from tenon.report.live import LiveCluster, LowerBound
from tenon.scheduling.model import InstanceType
from tenon.simulation.class_types import ClassTypes
from tenon.simulation.decisions import Question, problem_from_scratch
from tenon.simulation.defaults import fill_in
from tenon.simulation.objects import Objects
from tenon.simulation.reading import finish
from tenon.simulation.settings import read_settings
from worker.cache.planning_view import PlanningView

ELSEWHERE = "The lower bound is not computed: the built-in catalogue has no types of the zones of the cluster"


def with_lower_bound(live: LiveCluster, prices: Prices) -> LiveCluster:
    """Return the cluster with its lower bound, or with a note why there is none."""
    types, faults = read_catalogue_file(None)
    priced_types = list(_priced(without_reservations(types), prices))
    zones = {offering.zone for kind in priced_types for offering in kind.offerings}
    if not any(row.zone in zones for row in live.fleet.rows if row.claim):
        return _with_note(live, ELSEWHERE)
    objects = Objects()
    simulation_settings, _, _ = read_settings([])
    faults += add_live_objects(objects, simulation_settings.gates())
    finish(objects)
    faults += objects.faults
    fill_in(objects, expressions=simulation_settings.aws_gates().node_class_cel)
    cache = FiledCache(live.fleet.now.timestamp())
    faults += fill(cache, objects)[1]
    if faults:
        return _with_note(live, f"The lower bound is not computed: {_text(faults)}")
    view = PlanningView(cache)
    claims = {row.claim for row in live.fleet.rows if row.claim and row.pool in _following_pools(view)}
    pods = list(_pods(cache, claims))
    class_types = ClassTypes(priced_types, builtin.descriptions, simulation_settings.node_settings)
    problem = problem_from_scratch(
        view, Question(pods=pods, types=priced_types, types_of=class_types.of, policy=simulation_settings.policy())
    )
    from tenon.scheduling.bound import lower_bounds  # loads a solver that only this needs

    (dollars,) = lower_bounds(problem, (0.0,))
    cost = sum(row.price or 0.0 for row in live.fleet.rows if row.claim in claims)
    return replace(live, lower_bound=LowerBound(dollars, cost, len(pods)))


def _following_pools(view: PlanningView) -> frozenset[str]:
    """The NodePools that follow their pods. A static one keeps its nodes whatever they cost."""
    return frozenset(pool.metadata.name for pool in view.node_pools() if pool.spec.replicas is None)


def _pods(cache: FiledCache, claims: Iterable[str]) -> Iterator[Pod]:
    """The pods on these nodes that other nodes would have to run."""
    for name in sorted(claims):
        claim = cache.claims.get(name)
        node = cache.node_of(claim) if claim is not None else None
        if node is not None:
            yield from (cache.recreated_pod(pod) for pod in cache.pods_on(node.name) if pod.reschedulable)


def _priced(types: Iterable[InstanceType], prices: Prices) -> Iterator[InstanceType]:
    for kind in types:
        offerings = []
        for offering in kind.offerings:
            price = prices.of(kind.name, offering.zone, offering.capacity_type)
            if price is not None:
                offerings.append(replace(offering, price=price))
        if offerings:
            yield replace(kind, offerings=tuple(offerings))


def _text(faults: Sequence[ManifestError]) -> str:
    return str(faults[0]).rstrip(".")


def _with_note(live: LiveCluster, note: str) -> LiveCluster:
    return replace(live, fleet=replace(live.fleet, notes=[*live.fleet.notes, note]))
