"""Converts a NodePool for the scheduling engine."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.ec2.launched_labels import tenancy
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import of_model
from tenon.provisioning.missing_instance_types import is_available, why_none
from tenon.resources import Resources, parse_resources
from tenon.scheduling.model import InstanceType, Pool


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
    pool: NodePool, instance_types: Sequence[InstanceType], usage: Resources, zones: frozenset[str] = frozenset()
) -> Pool:
    """Return the pool for the engine, with its usage and only the instance types that its requirements allow.

    ``zones`` are the zones in which its class has subnets, if known.
    """
    requirements = template_requirements(pool)
    spec = pool.spec.template.spec
    allowed = [kind for kind in instance_types if is_available(kind, requirements)]
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
        lacking="" if allowed else why_none(requirements, instance_types, zones),
    )


def instance_type_requirement(names: Sequence[str]) -> Requirement:
    """Return the requirement that lists exactly these types."""
    return Requirement.new(labels.INSTANCE_TYPE, "In", names)
