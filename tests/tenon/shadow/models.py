"""A small model cluster for the tests of `tenon.shadow`: one NodePool, types of `builders.CATALOG`, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.disruption.pool_policy import policies_of
from tenon.kube.pod import Pod
from tenon.kube.records import Deletion, PodRecord
from tenon.provisioning.gates import FeatureGates
from tenon.scheduling.deadline import never
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.disruptions import ModelCommand, Rules, carry_out_due, expire, look_for_moves, remove_empty
from tenon.shadow.feeding import feed
from tenon.shadow.pods import LivePod
from tenon.shadow.purchases import buy, is_due
from tenon.shadow.view import ModelView, ShadowPodFacts
from tenon.simulation.decisions import PlanQuestion
from tenon.simulation.defaults import default_class
from tests.tenon.scheduling.builders import CATALOG, pod

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()
BOOT, DRAIN = 40.0, 30.0
PRICES = {
    (kind.name, offering.zone, offering.capacity_type): offering.price
    for kind in CATALOG
    for offering in kind.offerings
}


def node_pool(**disruption: Any) -> NodePool:
    """An on-demand NodePool of amd64 types."""
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements, "expireAfter": "Never"}}
    defaults = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "30s",
        "budgets": [{"nodes": "100%"}],
    }
    return NodePool.model_validate(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": template, "disruption": {**defaults, **disruption}},
        }
    )


@dataclass
class Around:
    """Implements `Surroundings`."""

    pools: Sequence[NodePool] = field(default_factory=lambda: [node_pool()])

    def daemons(self) -> Sequence[Pod]:
        return ()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return {"default": {}}

    def node_pools(self) -> Sequence[NodePool]:
        return self.pools

    def node_class(self, name: str) -> EC2NodeClass | None:
        return EC2NodeClass.model_validate(default_class(name))


def live(
    name: str,
    *,
    cpu: str = "1",
    owner: str = "Deployment/web",
    ends: bool = False,
    node_leaves: bool = False,
    **more: Any,
) -> LivePod:
    """A pod of a Deployment; its UID is ``uid-NAME``."""
    scheduling_pod = replace(pod(name, cpu, "1Gi", labels={"app": "web"}), workload=owner, created=NOW)
    deletion = Deletion(datetime.fromtimestamp(NOW, UTC), 0) if ends else None
    record = PodRecord(scheduling_pod, "1", owner_kind=more.pop("kind", "ReplicaSet"), deletion=deletion)
    return LivePod(record, scheduling_pod, node_leaves=node_leaves, **more)


@dataclass
class Steps:
    """The model at a time that moves on."""

    around: Around = field(default_factory=Around)
    cluster: ModelCluster = field(default_factory=ModelCluster)
    now: float = NOW
    clock: Callable[[], float] = lambda: 0.0
    question: PlanQuestion = field(default_factory=lambda: PlanQuestion((), CATALOG))

    @property
    def view(self) -> ModelView:
        """The model now."""
        return ModelView(self.cluster, self.around, self.now)

    @property
    def price(self) -> float:
        """Dollars an hour."""
        return self.cluster.price(PRICES)

    def feed(self, *present: LivePod, ended: Sequence[str] = ()) -> int:
        """Pods come, change and go."""
        return feed(self.cluster, present, ended, self.now)

    def pass_time(self, seconds: float) -> None:
        """Let nodes become ready and leave, and buy what is due."""
        self.now += seconds
        self.cluster.remove_left_nodes(self.now)
        expire(self.view, policies_of(self.around.pools), BOOT, DRAIN)
        if is_due(self.cluster, self.now):
            buy(self.view, self.question, BOOT, self.clock)

    def disrupt(self) -> Sequence[ModelCommand]:
        """Decide about disruption once."""

        def fail(name: str, error: Exception) -> None:
            raise AssertionError(name) from error

        facts, policies = ShadowPodFacts(lambda _record: ()), policies_of(self.around.pools)
        rules = Rules(policies, facts, FeatureGates(), PRICES, BOOT, DRAIN, never, fail)
        commands = [*carry_out_due(self.view, self.question, rules), *remove_empty(self.view, rules)]
        return [*commands, *look_for_moves(self.view, self.question, rules, None)[0]]
