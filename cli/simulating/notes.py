"""What a reader of a simulation must know about its input and its catalogue, a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from cli.simulating import builtin
from cli.simulating.cluster import FiledCache
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.cost.split import ACCELERATORS
from tenon.ec2.types.capacity_reservations import region_of
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.refused_types import refusals_among
from tenon.scheduling.model import InstanceType, Pool
from tenon.simulation.decisions import SolvedProblem
from tenon.simulation.objects import Objects

ONLY_BUILT_IN = f"the built-in catalogue knows {builtin.REGION} only: name one of your region with --catalog"


def other_region(node_classes: Iterable[EC2NodeClass]) -> str:
    """Return why the built-in catalogue says nothing about these classes; empty if their subnets are in its region."""
    regions = {region_of(subnet.zone) for node_class in node_classes for subnet in node_class.status.subnets} - {""}
    if not regions or builtin.REGION in regions:
        return ""
    return (
        f"the built-in catalogue knows {builtin.REGION} only, and the EC2NodeClasses have subnets in "
        f"{', '.join(sorted(regions))}, so what Tenon buys there and why is not known: write a file with "
        f"`tenon catalog {min(regions)}`, and name it with --catalog"
    )


def catalogue_notes(
    decision: SolvedProblem, types: Sequence[InstanceType], refused: Mapping[OfferingKey, datetime]
) -> Iterator[str]:
    """What the built-in catalogue cannot know of this decision."""
    if any(claim.offering.capacity_type == labels.SPOT for claim in decision.plan.claims):
        yield "spot prices of the built-in catalogue are estimates, the same in every zone"
    for pool in decision.problem.pools:
        if not pool.instance_types and not refusals_among(types, pool.requirements, refused):
            elsewhere = f"; {ONLY_BUILT_IN}" if _is_elsewhere(pool, types) else ""
            yield f"NodePool {pool.name}: {pool.why_lacking}{elsewhere}"
    for name in _absent_accelerators(decision, types):
        yield f"no type of the built-in catalogue has {name}, though EC2 sells some: name a fuller one with --catalog"


def _absent_accelerators(decision: SolvedProblem, types: Sequence[InstanceType]) -> list[str]:
    """The accelerators that pods without a place need, and no type has."""
    waiting_pods = [pod for pod in decision.problem.pods if pod.key in decision.plan.unschedulable]
    needed = {name for name in ACCELERATORS for pod in waiting_pods if pod.requests.get(name)}
    return sorted(name for name in needed if not any(kind.capacity.get(name) for kind in types))


def _is_elsewhere(pool: Pool, types: Sequence[InstanceType]) -> bool:
    """Whether the pool's nodes may be in none of the zones or regions that the types are sold in."""
    zones = {offering.zone for kind in types for offering in kind.offerings}
    regions = {region for kind in types for region in kind.requirements.get(labels.REGION).values}
    requirements = pool.requirements
    if pool.zones and zones.isdisjoint(pool.zones):
        return True
    in_zones = any(requirements.get(labels.ZONE).has(zone) for zone in zones)
    return not (in_zones and any(requirements.get(labels.REGION).has(region) for region in regions))


def left_out_notes(cache: FiledCache) -> Iterable[str]:
    """Yield which NodePools another controller serves."""
    for name in sorted(cache.pools.left_out):
        yield f"NodePool {name} is left out: its nodeClassRef names no EC2NodeClass, so another controller serves it"


def object_notes(objects: Objects) -> Iterable[str]:
    """Yield what reading the objects said, each once."""
    for text, count in objects.notes.items():
        yield f"{text} ({count} times)" if count > 1 else text
