"""What a disruption decision was made from, in a compact form that is kept for months.

The cluster is in it as in the inputs of plans (`tenon.provisioning.plan_document`), with the same catalogues of
instance types. The pods that leave with their nodes are listed as the pods of the problem. UIDs of nodes, which no
decision reads, are left out: they would be a tenth of the document.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from tenon.apis.nodepool import Budget
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.gates import NO_GATES, DecisionGates
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.repair.policies import RepairPolicy, RepairPolicySet
from tenon.disruption.repair.pool_policies import PoolRepair, RepairBudgets
from tenon.disruption.situation import AskedApproval, Situation
from tenon.kube.pod import Pod
from tenon.messages.disruption import PassCursor
from tenon.provisioning.input_documents import VERSION, UnreadableInputsError, read
from tenon.provisioning.plan_decoder import PlanInputDecoder
from tenon.provisioning.plan_document import InputsTooLargeError, PlanDocument, PlanInputs, in_order, packed
from tenon.provisioning.plan_encoder import PlanInputEncoder
from tenon.rollout.versions import PoolRollout
from tenon.scheduling.deadline import Expired
from tenon.sentences import counted

MAX_DECISION_PODS = 20_000
MAX_DECISION_NODES = 2_000
"""A larger cluster would take seconds to encode, and not fit into a document either."""


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """A situation, and what chose in it."""

    situation: Situation
    gates: DecisionGates = NO_GATES

    def methods(self, expired: Expired) -> tuple[Method, ...]:
        """Return the methods that chose: without a model of the cluster, those that need none."""
        return METHODS if self.situation.model is None else moving_methods(expired, self.gates)


class _Detail(msgspec.Struct, frozen=True):
    detail: NodeDetail
    """Without pods."""
    pods: list[int]
    """By their place among the pods of the cluster."""


class _Model(msgspec.Struct, frozen=True):
    cluster: PlanDocument
    static_pools: list[str]
    details: dict[str, _Detail]


class _Policies(msgspec.Struct, frozen=True):
    policies: list[RepairPolicy]
    by_user: bool


class _RepairBudgets(msgspec.Struct, frozen=True):
    policy: str
    pools: list[str]
    budgets: list[Budget]


class _Repair(msgspec.Struct, frozen=True):
    built_in: _Policies
    by_pool: dict[str, _Policies]
    budgets: dict[str, _RepairBudgets]
    tripped: list[str]


class DecisionDocument(msgspec.Struct, frozen=True):
    """A situation. Its fields are those of `Situation`, sorted, and the gates."""

    version: int
    gates: DecisionGates
    nodes: list[ManagedNode]
    policies: dict[str, PoolPolicy]
    now: datetime
    under_command: list[str]
    postponed: list[str]
    awaiting_replacement: dict[str, str]
    nominated: list[str]
    buffer_hosts: list[str]
    model: _Model | None
    slowed: dict[str, str]
    cursor: PassCursor | None
    blocked_at: dict[str, datetime]
    destinations: list[str]
    quiet_since: dict[str, datetime] | None
    repair: _Repair | None
    approvals: dict[str, AskedApproval]
    rollouts: dict[str, PoolRollout]


class DecisionInputEncoder:
    """Encodes situations, and each list of instance types once. It is not for several threads at a time."""

    def __init__(self) -> None:
        self._problems = PlanInputEncoder()

    def encode(self, inputs: DecisionInputs) -> PlanInputs:
        """Return the documents of a decision's inputs.

        Raises:
            InputsTooLargeError: they are not to be kept.
        """
        situation = inputs.situation
        if len(situation.nodes) > MAX_DECISION_NODES:
            raise InputsTooLargeError(
                f"the inputs have {counted(len(situation.nodes), 'node')}, and at most {MAX_DECISION_NODES} are kept"
            )
        model, catalogues = self._model(situation.model) if situation.model is not None else (None, {})
        document = DecisionDocument(
            version=VERSION,
            gates=inputs.gates,
            nodes=[replace(node, uid="") for node in sorted(situation.nodes, key=lambda node: node.claim)],
            policies={name: _policy(policy) for name, policy in situation.policies.items()},
            now=situation.now,
            under_command=sorted(situation.under_command),
            postponed=sorted(situation.postponed),
            awaiting_replacement=dict(situation.awaiting_replacement),
            nominated=sorted(situation.nominated),
            buffer_hosts=sorted(situation.buffer_hosts),
            model=model,
            slowed=dict(situation.slowed),
            cursor=situation.cursor,
            blocked_at=dict(situation.blocked_at),
            destinations=sorted(situation.destinations),
            quiet_since=None if situation.quiet_since is None else dict(situation.quiet_since),
            repair=_repair(situation.repair) if situation.repair is not None else None,
            approvals=dict(situation.approvals),
            rollouts=dict(situation.rollouts),
        )
        digest, text = packed(document)
        return PlanInputs(digest, text, catalogues)

    def _model(self, model: ClusterModel) -> tuple[_Model, Mapping[str, bytes]]:
        if model.wave_pools:
            raise InputsTooLargeError("a rollout replaces nodes, and NodePools are kept in one version only")
        pods_of = {claim: _without_node(detail) for claim, detail in model.details.items()}
        pods = in_order(pod for pods_of_node in pods_of.values() for pod in pods_of_node)
        if len(pods) > MAX_DECISION_PODS:
            raise InputsTooLargeError(
                f"the inputs have {counted(len(pods), 'pod')}, and at most {MAX_DECISION_PODS} are kept"
            )
        pools = [*model.problem.pools, *model.static_pools.values()]
        cluster, catalogues = self._problems.document(replace(model.problem, pods=pods, pools=pools))
        places = {id(pod): place for place, pod in enumerate(pods)}
        details = {
            claim: _Detail(replace(detail, pods=()), [places[id(pod)] for pod in pods_of[claim]])
            for claim, detail in model.details.items()
        }
        return _Model(cluster, sorted(model.static_pools), details), catalogues


class DecisionInputDecoder:
    """Decodes situations. Those that share their instance types share the lists too."""

    def __init__(self, catalogue_of: Callable[[str], bytes]) -> None:
        """``catalogue_of`` returns the catalogue with a digest."""
        self._problems = PlanInputDecoder(catalogue_of)

    def decode(self, digest: str, packed_document: bytes) -> DecisionInputs:
        """Return the inputs in a document.

        Raises:
            UnreadableInputsError: a document is damaged, or of a version that this one does not know.
        """
        document = read(digest, packed_document, DecisionDocument)
        try:
            model = self._model(digest, document.model) if document.model is not None else None
            repair = _read_repair(document.repair) if document.repair is not None else None
        except IndexError:
            raise UnreadableInputsError(f"the document {digest} names a part that it does not have") from None
        situation = Situation(
            nodes=document.nodes,
            policies=document.policies,
            now=document.now,
            under_command=frozenset(document.under_command),
            postponed=frozenset(document.postponed),
            awaiting_replacement=document.awaiting_replacement,
            nominated=frozenset(document.nominated),
            buffer_hosts=frozenset(document.buffer_hosts),
            model=model,
            slowed=document.slowed,
            cursor=document.cursor,
            blocked_at=document.blocked_at,
            destinations=frozenset(document.destinations),
            quiet_since=document.quiet_since,
            repair=repair,
            approvals=document.approvals,
            rollouts=document.rollouts,
        )
        return DecisionInputs(situation, document.gates)

    def _model(self, digest: str, document: _Model) -> ClusterModel:
        cluster = self._problems.problem_of(digest, document.cluster)
        details = {
            claim: replace(entry.detail, pods=_on_node(entry, cluster.pods))
            for claim, entry in document.details.items()
        }
        static = frozenset(document.static_pools)
        return ClusterModel(
            problem=replace(cluster, pods=[], pools=[pool for pool in cluster.pools if pool.name not in static]),
            details=details,
            static_pools={pool.name: pool for pool in cluster.pools if pool.name in static},
        )


def _without_node(detail: NodeDetail) -> list[Pod]:
    """The node's pods without its name, which they have in common with no pod of another node."""
    return [replace(pod, node_name="") if pod.node_name == detail.node else pod for pod in detail.pods]


def _on_node(entry: _Detail, pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """The pods of a node, with its name."""
    own_pods = [pods[place] for place in entry.pods]
    return tuple(pod if pod.node_name else replace(pod, node_name=entry.detail.node) for pod in own_pods)


def _policy(policy: PoolPolicy) -> PoolPolicy:
    """The policy with figures that JSON has: a least saving that nothing reaches is infinite."""
    least = policy.least_saving
    if least is None:
        return policy
    finite = replace(least, dollars=min(least.dollars, sys.float_info.max), share=min(least.share, sys.float_info.max))
    return replace(policy, least_saving=finite)


def _repair(repair: PoolRepair) -> _Repair:
    return _Repair(
        built_in=_policies(repair.built_in),
        by_pool={pool: _policies(policies) for pool, policies in repair.by_pool.items()},
        budgets={
            pool: _RepairBudgets(budgets.policy, sorted(budgets.pools), list(budgets.budgets))
            for pool, budgets in repair.budgets.items()
        },
        tripped=sorted(repair.tripped),
    )


def _policies(policies: RepairPolicySet) -> _Policies:
    return _Policies(list(policies.policies), policies.by_user)


def _read_repair(repair: _Repair) -> PoolRepair:
    return PoolRepair(
        built_in=_read_policies(repair.built_in),
        by_pool={pool: _read_policies(policies) for pool, policies in repair.by_pool.items()},
        budgets={
            pool: RepairBudgets(budgets.policy, frozenset(budgets.pools), tuple(budgets.budgets))
            for pool, budgets in repair.budgets.items()
        },
        tripped=frozenset(repair.tripped),
    )


def _read_policies(policies: _Policies) -> RepairPolicySet:
    return RepairPolicySet(tuple(policies.policies), policies.by_user)
