"""What was decided about one batch: the plan, and all that writing, recording and telling of it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from activities.cluster_view.interfaces import Fingerprint
from activities.provisioning.capacity_probes import Probes
from activities.provisioning.claim_writer import Written
from activities.provisioning.superseded_claims import RefusedClaims
from tenon.apis.nodepool import NodePool
from tenon.apis.shortage_price import is_far_dearer, price_factor
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.explanation import Explanation
from tenon.messages.provisioning import ShortageWait
from tenon.provisioning.overlays import Overlaid
from tenon.scheduling.model import Plan, PlannedClaim, Problem


@dataclass(frozen=True)
class PlanDecision:
    """A plan of one batch, and what people and later plans must know of it."""

    plan: Plan
    all_pods: Sequence[Pod]
    """All pods that the plan is for, including those of buffers."""
    failed: Mapping[str, str]
    """Key to the reason, for pods that are in no part of the plan because the engine failed on them."""
    overlaid: Overlaid
    ready: frozenset[str]
    """The nodes that were initialized."""
    fingerprint: Fingerprint
    took: float
    problem: Problem
    """What the engine was asked."""
    as_solved: bool
    """The plan is what the engine said, and no node was held back."""
    in_flight: frozenset[str] = frozenset()
    """The names of NodeClaims that have no Node yet."""
    explanations: Sequence[Explanation] = ()
    """For each NodeClaim of the plan, why it is bought."""
    usual_prices: Sequence[float | None] = ()
    """For each NodeClaim of the plan, what the cheapest refused offering costs that would do; None if none."""
    waits: Mapping[str, ShortageWait] = field(default_factory=dict)
    """Key to what the pod waits for, for pods that do not accept the price of the node that they could get."""
    paused: Mapping[str, str] = field(default_factory=dict)
    """Key to the reason, for pods that are in no part of the plan because earlier nodes did not get them."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Key to the reason why kube-scheduler may not place the pod where the plan has it."""
    without_types: Mapping[str, str] = field(default_factory=dict)
    """Why no instance type is available, for each NodePool that has none."""
    refused: RefusedClaims = field(default_factory=dict)
    """The NodeClaims that EC2 refuses because of their EC2NodeClass."""
    next_probe: datetime | None = None
    """When a NodeClaim may be made to probe an EC2NodeClass that EC2 refuses; None if none is due."""
    probes: Probes = field(default_factory=Probes)
    """Those of the NodeClaims that ask for offerings which EC2 refused."""
    postponed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Key to the NodePool and capacity type that must launch other nodes first, for pods whose node waits for that."""
    lacked_quotas: frozenset[OfferingKey] = frozenset()
    """The offerings for which quotas have no room, and that pods without a place could use."""
    next_attempts: Mapping[OfferingKey, datetime] = field(default_factory=dict)
    """The offerings that the plan avoids, and when a NodeClaim may ask EC2 for each again."""

    @property
    def avoided(self) -> UnavailableOfferings:
        """The offerings that the plan avoids, because EC2 refused them or takes them back."""
        return UnavailableOfferings(self.next_attempts)

    @property
    def dear_claims(self) -> list[PlannedClaim]:
        """The NodeClaims of the plan that cost far more than usual."""
        return [
            claim
            for claim, usual_price in zip(self.plan.claims, self.usual_prices, strict=True)
            if usual_price is not None
            and is_far_dearer(claim.price, usual_price, price_factor(self.pools[claim.pool].metadata.annotations))
        ]

    @property
    def pods(self) -> list[Pod]:
        """The pods that exist in the cluster, without those of buffers."""
        return [pod for pod in self.all_pods if not pod.buffer]

    @property
    def pools(self) -> dict[str, NodePool]:
        """The NodePools that the plan could buy from, by name."""
        return {pool.metadata.name: pool for pool, _ in self.overlaid.pools_with_types}

    def as_written(self, written: Written) -> Plan:
        """The plan with only the written NodeClaims. Pods of the others, and failed pods, become unschedulable."""
        why = {pod.key: unwritten.reason for unwritten in written.unwritten for pod in unwritten.planned.pods}
        others = {key: NoPlace.of(text) for key, text in {**self.failed, **self.paused}.items()}
        unschedulable = {**self.plan.unschedulable, **why, **others}
        return replace(self.plan, claims=written.claims, unschedulable=unschedulable)


def waits_for_node(pod: Pod) -> bool:
    """Whether the pod waits for a node and should get events.

    A pod that must leave its node still runs, and a pod that stands for a buffer does not exist.
    """
    return not pod.node_name and not pod.buffer
