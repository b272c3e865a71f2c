"""What keeps each node from consolidation, from the same table of blockers that decisions read.

Advice must not contradict a decision. So advice to change something is only given about a node if, by that table,
nothing lasting would keep the node once it is changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pydantic import ValidationError

from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import details_only
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import PoolPolicy, policy_of
from tenon.disruption.rules.blockers import POD, Hold, Outlook, holds
from tenon.disruption.rules.held_pods import why_held
from tenon.disruption.situation import Situation
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, selecting
from tenon.kube.protection import node_protection, pod_protection
from tenon.kube.records import PodRecord
from tenon.report.live import LiveCluster, LiveNode

_LASTING = frozenset({Outlook.LASTS, Outlook.MOVES})


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod that may not be evicted now."""

    pod: PodRecord
    why: str
    is_annotated: bool
    """Whether an annotation of its own protects it."""
    budgets: tuple[str, ...]
    """The PodDisruptionBudgets that forbid it, with the annotation and without, as ``namespace/name``."""


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What keeps one node."""

    live: LiveNode
    managed: ManagedNode
    holds: Sequence[Hold]
    """By the table of blockers, for the consolidation of the node. Those that time ends are among them."""
    held_pods: Sequence[HeldPod]

    @property
    def names(self) -> frozenset[str]:
        """The names of the blockers that last until somebody changes something."""
        return _lasting(self.holds)

    @property
    def is_kept_by_pods_alone(self) -> bool:
        """Whether nothing lasting keeps the node but pods that may not be evicted."""
        return self.names == {POD}

    @property
    def is_moving(self) -> bool:
        """Whether something happens to the node already, or nothing can be said about it: no advice is about it."""
        return any(hold.blocker.outlook is Outlook.MOVES for hold in self.holds)


class Judge:
    """Asks the table of blockers about the nodes of a cluster."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._now = cluster.fleet.now
        self._budgets: Mapping[str, Sequence[PodDisruptionBudget]] = _by_namespace(cluster.budgets)
        self.pools = read_pools(cluster)
        policies = {name: policy_of(pool) for name, pool in self.pools.items()}
        self._live = {live.claim.name: live for live in cluster.nodes if live.claim is not None and live.claim.pool}
        self._held_pods = {name: self.held_pods_of(live) for name, live in self._live.items()}
        nodes = [self._managed(live, live.claim) for live in self._live.values() if live.claim is not None]
        self.situation = self._situation(nodes, policies)

    def all(self) -> list[Obstacles]:
        """Return what keeps each node of a NodePool."""
        return [
            Obstacles(
                live=self._live[managed.claim],
                managed=managed,
                holds=holds(managed, self.situation, _reason(managed)),
                held_pods=self._held_pods[managed.claim],
            )
            for managed in self.situation.nodes
        ]

    def held_pods_of(self, live: LiveNode) -> list[HeldPod]:
        """Return the pods of a node that may not be evicted now."""
        held_pods = []
        for pod in live.running_pods:
            budgets = selecting(pod.pod, self._budgets.get(pod.pod.namespace, ()))
            if why := why_held(pod, budgets, self._now):
                is_annotated = bool(pod.do_not_disrupt and pod_protection(pod, self._now))
                is_forbidden = why_held(replace(pod, do_not_disrupt=""), budgets, self._now)
                forbidding = tuple(sorted(_forbidding(budgets))) if is_forbidden else ()
                held_pods.append(HeldPod(pod, why, is_annotated, forbidding))
        return held_pods

    def is_free_with(self, obstacles: Obstacles, policy: PoolPolicy) -> bool:
        """Whether nothing lasting keeps the node once its NodePool has another policy."""
        changed = replace(self.situation, policies={**self.situation.policies, policy.name: policy})
        return not _lasting(holds(obstacles.managed, changed, _reason(obstacles.managed)))

    def _managed(self, live: LiveNode, claim: ClaimRecord) -> ManagedNode:
        node = live.node
        is_empty = not any(pod.reschedulable for pod in live.pods)
        held_pods = self._held_pods[claim.name]
        return ManagedNode(
            claim=claim.name,
            uid=claim.uid,
            pool=claim.pool,
            initialized=claim.initialized,
            ready=live.row.ready,
            leaving=claim.deleting or (node is not None and node.deleting),
            empty=is_empty,
            quiet_since=claim.quiet_since() if is_empty else None,
            node=node.name if node is not None else "",
            terminating=claim.terminating,
            protected_by=node_protection(
                claim.annotations, node.annotations if node is not None else {}, claim.keep_until, self._now
            ),
            held_by=_held_by(held_pods),
            drifted=claim.is_true(DRIFTED),
            disrupted_by=claim.disrupted_by,
            replacement_for=claim.replacement_for,
            expires_at=live.row.expires,
            registered=claim.registered,
            rebooting=claim.rebooting,
            warm=bool(claim.warm),
        )

    def _situation(self, nodes: Sequence[ManagedNode], policies: Mapping[str, PoolPolicy]) -> Situation:
        details = {name: self._detail(live, self._held_pods[name]) for name, live in self._live.items()}
        model = details_only(details)
        quiet_since = {
            name: since
            for name, live in self._live.items()
            if live.claim is not None and (since := live.claim.quiet_since()) is not None
        }
        return Situation(nodes, policies, self._now, model=model, quiet_since=quiet_since)

    def _detail(self, live: LiveNode, held_pods: Sequence[HeldPod]) -> NodeDetail:
        claim, row = live.claim, live.row
        return NodeDetail(
            node=row.node,
            instance_type=row.instance_type,
            zone=row.zone,
            capacity_type=row.capacity_type,
            price=row.price or 0.0,
            pods=tuple(pod.pod for pod in live.pods if pod.reschedulable),
            cost=0.0,
            held_by=_held_by(held_pods),
            has_grace_period=claim is not None and claim.termination_grace_seconds is not None,
            quiet_since=claim.quiet_since() if claim is not None else None,
            created_at=row.created,
        )


def consolidating(policy: PoolPolicy) -> PoolPolicy:
    """Return the policy that lets consolidation move pods as soon as it may."""
    return replace(policy, consolidation_policy="WhenEmptyOrUnderutilized", consolidate_after=timedelta())


def read_pools(cluster: LiveCluster) -> dict[str, NodePool]:
    """Return the NodePools that can be read, by name."""
    pools = {}
    for record in cluster.pools:
        try:
            pools[record.name] = NodePool.model_validate(record.body)
        except ValidationError:  # nothing is decided about its nodes either
            continue
    return pools


def _lasting(keeping: Iterable[Hold]) -> frozenset[str]:
    return frozenset(hold.blocker.name for hold in keeping if hold.blocker.outlook in _LASTING)


def _reason(node: ManagedNode) -> Reason:
    return Reason.EMPTY if node.empty else Reason.UNDERUTILIZED


def _held_by(held_pods: Collection[HeldPod]) -> str:
    return next((f"pod {held_pod.pod.key}: {held_pod.why}" for held_pod in held_pods), "")


def _forbidding(budgets: Sequence[PodDisruptionBudget]) -> list[str]:
    if len(budgets) > 1:  # no pod is evicted that several budgets select
        return [budget.name for budget in budgets]
    return [budget.name for budget in budgets if budget.blocks]


def _by_namespace(budgets: Sequence[PodDisruptionBudget]) -> dict[str, list[PodDisruptionBudget]]:
    by_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
    for budget in budgets:
        by_namespace[budget.namespace].append(budget)
    return by_namespace
