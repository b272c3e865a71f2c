"""What the NodePools of an EC2NodeClass require of their nodes, so that dry runs try an instance type of them."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.apis.managed import is_managed
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.kube.requirements import Requirements
from tenon.kube.structs import Object
from tenon.provisioning.pools import template_requirements


def pool_requirements(pools: Iterable[Object], class_name: str) -> list[Requirements]:
    """Return the requirements of each of these NodePools that can launch nodes of the class."""
    result = []
    for body in pools:
        pool, faults = parse(NodePool, body)
        if pool is None or faults or pool.metadata.deletion_timestamp is not None:
            continue
        reference = pool.spec.template.spec.node_class_ref
        if is_managed(reference.model_dump()) and reference.name == class_name:
            result.append(template_requirements(pool))
    return result
