"""What the nodes of NodePools were bought as, for limits on what they cost."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.records import NodeRecord
from tenon.provisioning.claims import largest_capacity
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.scheduling.offerings.hourly_cost import HOURLY_COST, TOTAL_HOURLY_COST
from worker.cache.state import ClusterState


def purchases(state: ClusterState) -> list[BoughtOffering]:
    """What each NodeClaim, and each Node without one, was bought as. Those that are leaving still cost."""
    bought = [_of_claim(claim) for claim in state.claims]
    for node in state.nodes:
        if state.claim_of(node) is None and node.labels.get(labels.NODEPOOL) in state.pools:
            bought.append(_sold_as(node.labels[labels.NODEPOOL], node))
    return bought


def launched_as(claim: ClaimRecord) -> BoughtOffering:
    """What a NodeClaim with an instance was bought as."""
    return _sold_as(claim.pool, claim, claim.launch_price or 0.0)


def _of_claim(claim: ClaimRecord) -> BoughtOffering:
    if claim.provider_id:
        return launched_as(claim)
    largest = largest_capacity(claim.annotations)
    return BoughtOffering(claim.pool, at_most=largest.get(HOURLY_COST) or largest.get(TOTAL_HOURLY_COST, 0))


def _sold_as(pool: str, record: ClaimRecord | NodeRecord, launch_price: float = 0.0) -> BoughtOffering:
    offering = OfferingKey.of_labels(record.labels)
    return BoughtOffering(pool, offering.instance_type, offering.zone, offering.capacity_type, launch_price)
