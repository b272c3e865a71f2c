"""Compares the cost of a load's nodes with the cost of a repack of the same pods by the engine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod
from tenon.kube.pod_decode import decode_pod
from tenon.provisioning.pools import scheduling_pool
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Pool, Problem

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bill:
    """Hourly price in dollars and number of nodes: as bought, after a repack, and the proven lower bound."""

    price: float
    nodes: int
    repacked_price: float
    repacked_nodes: int
    bound: float

    @property
    def ratio(self) -> float:
        """The actual price divided by the repacked price."""
        return self.price / self.repacked_price if self.repacked_price else 0.0


def price_of(claims: Iterable[Object], types: Iterable[InstanceType]) -> float:
    """Return the hourly price in dollars of the NodeClaims. A claim without an instance costs nothing yet.

    Only a launched claim has a zone: a claim that allows one type has that type's label before.

    Raises:
        KeyError: the types do not contain what a claim was launched as.
    """
    prices = {
        (kind.name, offering.zone, offering.capacity_type): offering.price
        for kind in types
        for offering in kind.offerings
    }
    return sum(
        prices[label[labels.INSTANCE_TYPE], label[labels.ZONE], label[labels.CAPACITY_TYPE]]
        for label in (claim["metadata"]["labels"] for claim in claims)
        if {labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE} <= label.keys()
    )


def pending(pods: Iterable[Object]) -> list[Pod]:
    """Return the pods as if they were not bound yet."""
    unbound = ({**pod, "spec": {**pod["spec"], "nodeName": ""}} for pod in pods)
    return [decode_pod(json.dumps(pod).encode()).pod for pod in unbound]


def bill(claims: Sequence[Object], pods: Sequence[Object], pool: Pool) -> Bill:
    """Compute the bill of these nodes and pods. The repack starts from an empty cluster."""
    problem = Problem(pending(pods), [pool])
    plan = solve(problem)
    return Bill(
        price=price_of(claims, pool.instance_types),
        nodes=len(claims),
        repacked_price=sum(claim.price for claim in plan.claims),
        repacked_nodes=len(plan.claims),
        bound=lower_bound(problem),
    )


async def pool_of(sandbox: Sandbox, kube: Kube, name: str = "default") -> Pool:
    """Return a NodePool of the sandbox as the engine sees it, with none of its limits used."""
    body = await kube.get(NODEPOOLS, name)
    pool = NodePool.model_validate(body)
    result = await kube.get(EC2NODECLASSES, pool.spec.template.spec.node_class_ref.name)
    node_class = EC2NodeClass.model_validate(result)
    types = await asyncio.to_thread(_types, sandbox.worker_env(), node_class)
    return scheduling_pool(pool, types, {})


def _types(environment: Mapping[str, str], node_class: EC2NodeClass) -> list[InstanceType]:
    with mock.patch.dict(os.environ, environment):
        clients = Ec2(environment["AWS_REGION"])
        return Ec2Provider(clients, describe_cluster(clients, environment["CLUSTER_NAME"])).instance_types(node_class)
