"""Reads the cluster once: each node with its price, and what its pods request."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from activities.kubernetes import resources
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import Resource
from cli.fleet_view.node_prices import NodePrices, aws_prices, region_of, table_prices
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import manages_claim, manages_pool
from tenon.apis.nodeclaim import INSTANCE_TERMINATING
from tenon.apis.warm import STOPPED
from tenon.cost.bill import Lifetime
from tenon.cost.split import ConsumerKind, PricedNode, load_of, loads_of
from tenon.ec2.launch.disk_price import disk_price
from tenon.fleet.rows import labels_of, node_row, running_price
from tenon.fleet.summary import Totals, totals
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_node
from tenon.kube.pod_decode import pod_of
from tenon.kube.records import NodeRecord, PodRecord
from tenon.money import nanos


@dataclass(slots=True)
class CostObjects:
    """The objects of a cluster that cost depends on."""

    claims: list[ClaimRecord]
    nodes: list[NodeRecord]
    pods: list[PodRecord]
    has_buffers: bool
    """Whether there are CapacityBuffers."""
    read_at: datetime
    notes: list[str] = field(default_factory=list)
    classes: Mapping[str, EC2NodeClass] = field(default_factory=dict)
    """By name, the EC2NodeClasses, which say what disks nodes have. Empty if no disk is paid for."""
    class_of_pool: Mapping[str, str] = field(default_factory=dict)
    """By NodePool, the name of its EC2NodeClass. Empty if no disk is paid for."""
    needs_disks: bool = False
    """Whether an instance is or was stopped, so that its disks are paid for."""

    @property
    def region(self) -> str:
        """The region of the nodes; empty if no node says it."""
        return next(filter(None, (node.labels.get(labels.REGION, "") for node in self.nodes)), "")


async def read_cluster(kube: Kube, now: datetime, *, with_disks: bool = False) -> CostObjects:
    """Read the cluster.

    Args:
        now: the time.
        with_disks: instances that are gone were stopped for a time, so what the disks of NodePools are is asked for.

    Raises:
        ApiError: the API server does not answer, or refuses.
    """
    claims = [ClaimRecord.of(body) for body in await _served(kube, resources.NODECLAIMS) if manages_claim(body)]
    nodes = [decode_node(json.dumps(body).encode()) for body in await kube.list(resources.NODES)]
    pods = [pod_of(body) for body in await kube.list(resources.PODS) if (body.get("spec") or {}).get("nodeName")]
    buffers = await _served(kube, resources.CAPACITYBUFFERS)
    needs_disks = with_disks or any(_was_stopped(claim) for claim in claims)
    if not needs_disks:
        return CostObjects(claims, nodes, pods, bool(buffers), now)
    class_of_pool = {
        body["metadata"]["name"]: str(body["spec"]["template"]["spec"]["nodeClassRef"]["name"])
        for body in await _served(kube, resources.NODEPOOLS)
        if manages_pool(body)
    }
    classes = await _classes(kube)
    return CostObjects(claims, nodes, pods, bool(buffers), now, [], classes, class_of_pool, needs_disks=True)


def _was_stopped(claim: ClaimRecord) -> bool:
    return claim.warm == STOPPED or labels.STOPPED_TIMES in claim.annotations


async def _classes(kube: Kube) -> dict[str, EC2NodeClass]:
    """The EC2NodeClasses, without those that cannot be read."""
    classes: dict[str, EC2NodeClass] = {}
    for body in await _served(kube, resources.EC2NODECLASSES):
        with contextlib.suppress(ValueError):
            classes[body["metadata"]["name"]] = EC2NodeClass.model_validate(body)
    return classes


async def _served(kube: Kube, resource: Resource) -> Sequence[JsonObject]:
    try:
        return await kube.list(resource)
    except NotFoundError:
        return ()


def prices_of(cluster: CostObjects, *, ask_aws: bool) -> NodePrices:
    """Return the prices of the cluster's region. It blocks for seconds if it asks AWS.

    Raises:
        PriceTableError: the file that PRICE_TABLE names cannot be used.
    """
    region = region_of(cluster.region)
    return aws_prices(region, with_volumes=cluster.needs_disks) if ask_aws else table_prices(region)


def priced_nodes(cluster: CostObjects, prices: NodePrices, label: str = "") -> tuple[list[PricedNode], Totals]:
    """Return the instances of NodeClaims, and the sums of all nodes. ``label``: of pods, to divide by.

    A warm node whose instance is stopped costs what its disks cost.
    """
    pods_by_node: dict[str, list[PodRecord]] = {}
    for pod in cluster.pods:
        pods_by_node.setdefault(pod.node_name, []).append(pod)
    priced, rows = [], []
    for claim, node in _pairs(cluster):
        pods = pods_by_node.get(node.name, []) if node is not None else []
        row = node_row(claim, node, pods, None, prices.prices, cluster.read_at)
        rows.append(row)
        if claim is None or not row.is_counted:
            continue
        is_stopped = claim.warm == STOPPED
        price = _disk_price(cluster, claim.node_class, prices) if is_stopped else row.price
        while_running = running_price(claim, labels_of(claim, node), prices.prices)
        priced.append(
            PricedNode(
                name=row.name,
                pool=row.pool,
                instance_type=row.instance_type,
                zone=row.zone,
                capacity_type=row.capacity_type,
                price=None if price is None else nanos(price),
                allocatable=node.allocatable if node is not None else {},
                loads=loads_of(pods, label),
                is_starting=node is None,
                claim=row.claim,
                instance=row.instance,
                launched_at=claim.launched_at or claim.created_at,
                is_stopped=is_stopped,
                running_price=None if while_running is None else nanos(while_running),
                stopped=claim.annotations.get(labels.STOPPED_TIMES, ""),
            )
        )
    return priced, totals(rows)


def disk_prices(cluster: CostObjects, prices: NodePrices) -> dict[str, int]:
    """Return, by NodePool, nano-dollars an hour of the disks of a node, for NodePools whose disks are known."""
    by_pool = {pool: _disk_price(cluster, name, prices) for pool, name in cluster.class_of_pool.items()}
    return {pool: nanos(price) for pool, price in by_pool.items() if price is not None}


def _disk_price(cluster: CostObjects, node_class: str, prices: NodePrices) -> float | None:
    model = cluster.classes.get(node_class)
    return disk_price(model, prices.volumes) if model is not None else None


def _pairs(cluster: CostObjects) -> Iterable[tuple[ClaimRecord | None, NodeRecord | None]]:
    by_provider = {node.provider_id: node for node in cluster.nodes if node.provider_id}
    by_name = {node.name: node for node in cluster.nodes}
    paired: set[str] = set()
    for claim in cluster.claims:
        node = by_provider.get(claim.provider_id) or by_name.get(claim.node_name)
        if node is not None:
            paired.add(node.name)
        yield claim, node
    for node in cluster.nodes:
        if node.name not in paired:
            yield None, node


def living(cluster: CostObjects, nodes: Iterable[PricedNode]) -> list[Lifetime]:
    """Return the instances of NodeClaims that run now, or whose termination EC2 accepted and that are not gone yet."""
    ends = {claim.name: claim.true_since(INSTANCE_TERMINATING) for claim in cluster.claims}
    return [
        Lifetime(
            instance=node.instance,
            claim=node.claim,
            node=node.name,
            pool=node.pool,
            instance_type=node.instance_type,
            zone=node.zone,
            capacity_type=node.capacity_type,
            price=node.running_price,
            launched_at=node.launched_at,
            ended_at=ends.get(node.claim),
            stopped=node.stopped,
        )
        for node in nodes
        if node.instance and node.launched_at is not None
    ]


def labels_of_workloads(cluster: CostObjects, label: str) -> Mapping[tuple[str, str], str]:
    """Return the label of the pods of each workload, by namespace and workload, as it is now."""
    consumers = {load_of(pod, label).consumer for pod in cluster.pods}
    return {
        (consumer.namespace, consumer.workload): consumer.label
        for consumer in sorted(consumers)
        if consumer.kind is ConsumerKind.PODS and consumer.label
    }
