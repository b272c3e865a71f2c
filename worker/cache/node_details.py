"""What disruption methods that move pods need to know of each node, read from a snapshot of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.apis.nodeclaim import DRIFTED
from tenon.disruption.commands.surging import deployment_key
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.pool_prices import PoolPrices, pool_prices
from tenon.disruption.rules.held_pods import held_until, holder
from tenon.disruption.search.cost import rescheduling_cost
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.records import NodeRecord
from tenon.kube.timestamps import clock_instant, from_epoch
from tenon.scheduling.model import InstanceType
from worker.cache.state import ClusterState


def node_details(state: ClusterState, now: float, types: Mapping[str, Sequence[InstanceType]]) -> dict[str, NodeDetail]:
    """Return the details of all nodes of NodePools, by NodeClaim.

    Nodes that are starting or leaving are no candidates, but count in what a NodePool costs (DIS-43).

    Args:
        state: the cluster.
        now: the current time in seconds since the epoch.
        types: by NodePool, its instance types, for the prices.
    """
    of_pools = [(claim, state.node_of(claim)) for claim in state.claims if claim.pool]
    type_names = {claim.labels.get(labels.INSTANCE_TYPE, "") for claim, _ in of_pools}
    prices = pool_prices(types, type_names)
    details: dict[str, NodeDetail] = {}
    for claim, node in of_pools:
        if node is not None:
            details[claim.name] = _kept_detail(state, claim, node, now, prices)
        elif not claim.initialized and labels.INSTANCE_TYPE in claim.labels:
            details[claim.name] = _starting(claim, prices)
    state.kept_details.keep_only(state.nodes.keys())
    return details


def _kept_detail(
    state: ClusterState, claim: ClaimRecord, node: NodeRecord, now: float, prices: PoolPrices
) -> NodeDetail:
    """The detail of a node, which is computed again only if something has changed that it is computed from."""
    pods = state.pods_by_key(node.name)
    price = _price(claim, OfferingKey.of_labels(claim.labels), prices)
    sources = (
        claim,
        node,
        pods,
        state.last_pod_event(node.name),
        state.moving.pdb_changes,
        state.storage.changes if any(pod.volumes for pod in pods.values()) else None,
        state.spreading.changes,
        state.predictions.changes,
    )
    kept_detail = state.kept_details.get(node.name, sources)
    if kept_detail is not None and kept_detail.price == price:
        return kept_detail
    detail = replace(kept_detail, price=price) if kept_detail is not None else _detail(state, claim, node, now, price)
    if not any(pod.protected_for_a_time for pod in pods.values()):
        state.kept_details.put(node.name, sources, detail)
    return detail


def _price(claim: ClaimRecord, offering: OfferingKey, prices: PoolPrices) -> float:
    return prices.get((claim.pool, offering.instance_type, offering.zone, offering.capacity_type), 0.0)


def _starting(claim: ClaimRecord, prices: PoolPrices) -> NodeDetail:
    """Return the detail of an instance that has no Node yet, and so no pods."""
    offering = OfferingKey.of_labels(claim.labels)
    return NodeDetail(
        node="",
        instance_type=offering.instance_type,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=_price(claim, offering, prices),
        pods=(),
        cost=rescheduling_cost(()),
        created_at=claim.created_at,
    )


def _detail(state: ClusterState, claim: ClaimRecord, node: NodeRecord, now: float, price: float) -> NodeDetail:
    node_pods = [pod for pod in state.pods_on(node.name) if not pod.terminal]
    moving = [pod for pod in node_pods if pod.reschedulable]
    offering = OfferingKey.of_labels(claim.labels)  # not those of the Node, which its kubelet may write
    instant = clock_instant(now)
    with_budgets = [(pod, state.moving.budgets_of(pod)) for pod in node_pods]
    held_by = holder(with_budgets, instant)
    return NodeDetail(
        node=node.name,
        instance_type=offering.instance_type,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=price,
        pods=tuple(state.recreated_pod(pod) for pod in moving),
        cost=rescheduling_cost(state.eviction_terms(pod) for pod in moving),
        surges=tuple(sorted({deployment_key(pod.pod) for pod in moving if pod.surges})),
        held_by=held_by,
        held_until=held_until(with_budgets, instant) if held_by else None,
        has_grace_period=claim.termination_grace_seconds is not None,
        drifted=str(claim.condition(DRIFTED).get("reason") or DRIFTED) if claim.is_true(DRIFTED) else "",
        drift_message=str(claim.condition(DRIFTED).get("message") or ""),
        drifted_since=claim.true_since(DRIFTED),
        quiet_since=claim.quiet_since(from_epoch(state.last_pod_event(node.name))),
        created_at=claim.created_at,
    )
