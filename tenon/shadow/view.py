"""The model cluster as the planner and disruption read a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.disruption.commands.surging import deployment_key
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_prices import PoolPrices, pool_prices
from tenon.disruption.rules.held_pods import held_until, holder
from tenon.disruption.search.cost import rescheduling_cost
from tenon.kube.pod import Pod
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget
from tenon.kube.records import PodRecord
from tenon.kube.timestamps import clock_instant
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.provisioning.problem import Surroundings
from tenon.resources import CPU, Resources
from tenon.rollout.revisions import class_key
from tenon.scheduling.model import InstanceType, Node
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.nodes import ModelNode, version_of


@dataclass(frozen=True, slots=True)
class ShadowPodFacts:
    """What disruption asks about pods."""

    budgets_of: Callable[[PodRecord], Sequence[PodDisruptionBudget]]
    """The PodDisruptionBudgets that select a pod."""
    costs_managed: bool = False
    """Whether Tenon writes the annotation pod-deletion-cost itself."""


@dataclass(frozen=True, slots=True)
class ModelView:
    """Implements `tenon.provisioning.problem.PlannedCluster` for the model at one moment."""

    cluster: ModelCluster
    around: Surroundings
    now: float
    outside_nodes: Sequence[Node] = ()
    """The Nodes of no NodePool. The model puts no pods on them, but rules between pods count theirs."""
    drifted_claims: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim of the cluster, the reason of its condition Drifted."""

    def nodes(self) -> Sequence[Node]:
        """Existing and in-flight capacity."""
        return [*(node.seen_by_engine(self.now) for node in self.cluster.nodes.values()), *self.outside_nodes]

    def daemons(self) -> Sequence[Pod]:
        """One template pod for each DaemonSet."""
        return self.around.daemons()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return self.around.namespaces()

    def node_pools(self) -> Sequence[NodePool]:
        """The NodePools that can be parsed."""
        return self.around.node_pools()

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The EC2NodeClass with this name, if it exists and can be parsed."""
        return self.around.node_class(name)

    def pool_usage(self, pool: str) -> Resources:
        """What the pool's nodes use of its limits."""
        return self.cluster.pool_usage(pool)

    def purchases(self) -> list[BoughtOffering]:
        """What the nodes of all NodePools were bought as."""
        return [BoughtOffering(node.pool, *node.offering) for node in self.cluster.nodes.values()]

    def versions(self) -> dict[str, str]:
        """Return what new nodes of each NodePool would be (`version_of`)."""
        return {pool.metadata.name: version_of(pool, self.node_class(class_key(pool))) for pool in self.node_pools()}

    def drift(self, node: ModelNode, versions: Mapping[str, str]) -> str:
        """Return why a node is drifted; empty if it is not."""
        if reason := self.drifted_claims.get(node.claim, ""):
            return reason
        current = versions.get(node.pool)
        return "NodePoolDrifted" if current is not None and current != node.version else ""

    def managed_nodes(self, versions: Mapping[str, str]) -> list[ManagedNode]:
        """Return the nodes as disruption sees them."""
        return [self._managed(node, versions) for node in self.cluster.nodes.values()]

    def node_details(
        self, facts: ShadowPodFacts
    ) -> Callable[[Mapping[str, Sequence[InstanceType]]], dict[str, NodeDetail]]:
        """Return a function that gives the details of the nodes that stay, by name, with the prices of types."""
        versions = self.versions()
        graceful = {
            pool.metadata.name
            for pool in self.node_pools()
            if pool.spec.template.spec.termination_grace_period is not None
        }

        def details(types: Mapping[str, Sequence[InstanceType]]) -> dict[str, NodeDetail]:
            prices = pool_prices(types, {node.offering[0] for node in self.cluster.nodes.values()})
            return {
                name: self._detail(node, prices, facts, versions, graceful)
                for name, node in self.cluster.nodes.items()
                if node.stays
            }

        return details

    def _managed(self, node: ModelNode, versions: Mapping[str, str]) -> ManagedNode:
        is_empty = node.stays and self.now >= node.ready and not node.pods
        return ManagedNode(
            claim=node.name,
            uid=node.name,
            pool=node.pool,
            initialized=self.now >= node.ready,
            ready=True,
            leaving=not node.stays,
            empty=is_empty,
            quiet_since=clock_instant(max(node.quiet, node.ready)) if is_empty else None,
            node=node.name,
            terminating=False,
            drifted=bool(self.drift(node, versions)),
            created_for=node.created_for,
            arrivals=node.arrivals,
            expires_at=None if node.expires is None else clock_instant(node.expires),
            cpu=node.base.allocatable.get(CPU, 0),
        )

    def _detail(
        self,
        node: ModelNode,
        prices: PoolPrices,
        facts: ShadowPodFacts,
        versions: Mapping[str, str],
        graceful: Collection[str],
    ) -> NodeDetail:
        instance_type, zone, capacity_type = node.offering
        records = [self.cluster.pods[uid].live.record for uid in node.pods]
        costs = facts.costs_managed
        drifted = self.drift(node, versions)
        with_budgets = [(record, facts.budgets_of(record)) for record in records]
        held_by = holder(with_budgets, clock_instant(self.now))
        return NodeDetail(
            node=node.name,
            instance_type=instance_type,
            zone=zone,
            capacity_type=capacity_type,
            price=prices.get((node.pool, instance_type, zone, capacity_type), 0.0),
            pods=tuple(node.pods.values()),
            cost=rescheduling_cost(
                (record.pod.priority, record.stated_cost(deletion_costs_managed=costs)) for record in records
            ),
            surges=tuple(sorted({deployment_key(record.pod) for record in records if record.surges})),
            has_grace_period=node.pool in graceful,
            held_by=held_by,
            held_until=held_until(with_budgets, clock_instant(self.now)) if held_by else None,
            drifted=drifted,
            drift_message=drifted,
            drifted_since=clock_instant(self.now) if drifted else None,
            quiet_since=clock_instant(max(node.quiet, node.ready)),
            created_at=clock_instant(node.created),
        )
