"""Converts a NodePool for the scheduling engine, and explains why it has no instance type: which requirements no type
meets, and which values exist instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.purchase_goals import goals_of
from tenon.ec2.launch.launched_labels import tenancy
from tenon.kube.offerings import OfferingKey
from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.kube.taints import of_model
from tenon.provisioning.refused_types import NOTHING_REFUSED, refusals_among
from tenon.provisioning.types_without_image import allowed_without_image, image_obstacle, is_sold
from tenon.resources import Resources, parse_resources
from tenon.scheduling.explanation.label_values_text import beyond_subnets, format_values, listed
from tenon.scheduling.model import InstanceType, Offering, Pool


def template_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that every node of the pool has, whatever its type."""
    reference = pool.spec.template.spec.node_class_ref
    provisioner = pool.metadata.labels.get(labels.PROVISIONER)
    return {
        **({labels.PROVISIONER: provisioner} if provisioner else {}),
        **pool.spec.template.metadata.labels,
        labels.NODEPOOL: pool.metadata.name,
        f"{reference.group}/{reference.kind.lower()}": reference.name,
    }


def template_requirements(pool: NodePool) -> Requirements:
    """Return the pool's requirements, with its labels as single-value requirements."""
    terms = [term.to_dict() for term in pool.spec.template.spec.requirements]
    return Requirements.from_terms(terms).with_(Requirements.from_labels(template_labels(pool)))


def is_dedicated(pool: NodePool) -> bool:
    """True if all nodes of the pool are dedicated instances, which have prices of their own.

    In a pool that allows both tenancies, only the pods decide, and nodes count at the price of shared ones in plans.
    """
    return tenancy(template_requirements(pool)) == labels.DEDICATED


def scheduling_pool(
    pool: NodePool,
    instance_types: Sequence[InstanceType],
    usage: Resources,
    zones: frozenset[str] = frozenset(),
    refused: Mapping[OfferingKey, datetime] = NOTHING_REFUSED,
) -> Pool:
    """Return the pool for the engine, with its usage and only the instance types that its requirements allow.

    Args:
        pool: the NodePool.
        instance_types: those of its class. Offerings that EC2 refused are marked as unavailable, and so are those of
            types that no image of the class boots.
        usage: what its nodes and claims use of its limits.
        zones: the zones in which its class has subnets, if known.
        refused: what EC2 refused, with the time when plans try it again.
    """
    requirements = template_requirements(pool)
    spec = pool.spec.template.spec
    allowed = [kind for kind in instance_types if is_available(kind, requirements)]
    lacking: tuple[Obstacle, ...] = ()
    if not allowed:
        lacking = (
            refusals_among(instance_types, requirements, refused)
            or image_obstacle(
                spec.node_class_ref.name, instance_types, allowed_without_image(instance_types, requirements)
            )
            or (Obstacle(ObstacleKind.REQUIREMENTS, why_no_type(requirements, instance_types, zones)),)
        )
    return Pool(
        name=pool.metadata.name,
        requirements=requirements,
        instance_types=allowed,
        weight=pool.spec.weight or 0,
        labels=template_labels(pool),
        taints=of_model(spec.taints),
        startup_taints=of_model(spec.startup_taints),
        limits=parse_resources(pool.spec.limits) or None,
        usage=usage,
        zones=zones,
        goals=goals_of(pool.metadata.annotations),
        lacking=lacking,
    )


def instance_type_requirement(names: Sequence[str]) -> Requirement:
    """Return the requirement that lists exactly these types."""
    return Requirement.new(labels.INSTANCE_TYPE, "In", names)


def is_available(kind: InstanceType, requirements: Requirements) -> bool:
    """True if a node with these requirements may be of this type, in a zone and capacity type that is on sale."""
    return is_sold(kind, requirements, _on_sale(kind))


def why_no_type(requirements: Requirements, types: Sequence[InstanceType], zones: frozenset[str]) -> str:
    """Say which requirements exclude all the types. ``zones`` are the zones of the subnets, if known."""
    if not _any(requirements, [], types):
        return f"no instance type is on sale{f' in the zones of its subnets ({listed(zones)})' if zones else ''}"
    texts = [text for key in sorted(requirements) if (text := beyond_subnets(requirements[key], zones))]
    for key in () if texts else sorted(requirements):
        if not _any(requirements, [key], types):
            values = {value for kind in types for value in _values(kind, key)}
            exist = _most_similar(requirements[key], values) or format_values(values)
            texts.append(f"no available instance type meets its requirement {requirements[key]}{exist}")
    if texts:
        return ", and ".join(texts)
    needed = sorted(requirements)
    for key in sorted(requirements):
        fewer = [other for other in needed if other != key]
        if not _any(requirements, fewer, types):
            needed = fewer
    together = ", ".join(str(requirements[key]) for key in needed)
    return f"no available instance type meets its requirements {together} at once"


def _most_similar(requirement: Requirement, values: Iterable[str]) -> str:
    """The existing instance type that is spelled most like the required one, in parentheses; empty for other labels."""
    if requirement.key != labels.INSTANCE_TYPE or requirement.operator != IN:
        return ""
    similar = [name for value in requirement.values for name in get_close_matches(value, sorted(values), n=1)]
    return f" (the most similar is {similar[0]})" if similar else ""


def _any(requirements: Requirements, keys: Sequence[str], types: Sequence[InstanceType]) -> bool:
    subset = Requirements.of(*(requirements[key] for key in keys))
    return any(is_available(kind, subset) for kind in types)


def _values(kind: InstanceType, key: str) -> Iterator[str]:
    if key == labels.ZONE:
        yield from (offer.zone for offer in _on_sale(kind))
    elif key == labels.CAPACITY_TYPE:
        yield from (offer.capacity_type for offer in _on_sale(kind))
    elif key in kind.requirements:
        yield from kind.requirements[key].values


def _on_sale(kind: InstanceType) -> Iterator[Offering]:
    return (offer for offer in kind.offerings if offer.available)
