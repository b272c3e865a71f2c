"""The cluster as ``tenon shadow`` watches it: the worker's cache, and which pods have changed since the last check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

from activities.gate import Gate
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DISRUPTIONFREEZES, EC2NODECLASSES, NODEPOOLS, NODESCHEDULES
from cli.shadowing.inputs import Inputs
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord
from tenon.resources import PODS, subtract, total
from tenon.scheduling.model import Node
from tenon.shadow.batches import RealClaim
from tenon.shadow.nodes import ModelNode, without_pods_of_model
from tenon.shadow.pods import LivePod
from tenon.shadow.theirs import offering_of
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.planning_view import PlanningView

READ_ONLY = "tenon shadow only reads"
QPS, BURST = 20.0, 40
"""Requests a second to the API server. Watches need few."""
USUAL_BOOT_SECONDS = 60.0
"""Seconds until a node is ready, while no NodeClaim of the cluster says how long it took."""
BOOTS = 200
"""How many NodeClaims say it."""


async def read_only_client() -> Kube:
    """Return a client that refuses to send anything but reads, whatever its user may do.

    Raises:
        ConfigError: no kubeconfig can be used.
    """
    gate = Gate()
    gate.close(READ_ONLY)
    return await Kube.connect(qps=QPS, burst=BURST, gate=gate)


@dataclass(frozen=True, slots=True)
class ObservedChanges:
    """What happened to pods since the last check."""

    present: Sequence[LivePod]
    """Pods that are new or have changed."""
    ended: Sequence[str]
    """UIDs of pods that ended or do not exist any more."""
    evicted: Sequence[PodRecord] = ()
    """Those of them whose Node was being removed. They may have ended before any check saw that."""


class ObservedCluster:
    """Follows the cluster. Use it in the event loop that runs the cache."""

    def __init__(self, kube: Kube, inputs: Inputs, clock: Callable[[], float]) -> None:
        gates = inputs.settings.gates()
        self.cache = ClusterCache(
            kube,
            clock=clock,
            gates=gates,
            default_spread=inputs.spread,
            every_claim=True,
            without=inputs.replaced,
            may_lack=(DISRUPTIONFREEZES, NODESCHEDULES),
        )
        self.cache.deletion_costs_managed = gates.pod_deletion_cost_management
        for resource, table in ((NODEPOOLS, self.cache.pools), (EC2NODECLASSES, self.cache.nodeclasses)):
            for record in inputs.records(resource):
                table.on_event(record.key, record)
        self.view = PlanningView(self.cache)
        self._changed: dict[str, PodRecord] = {}
        self._ended: dict[str, PodRecord] = {}
        self._evicted: set[str] = set()
        """UIDs of ended pods whose Node was being removed when they ended."""
        self._records: dict[str, PodRecord] = {}
        """By UID, the pods that exist and need a node."""
        self._leaving: set[str] = set()
        self._real_claims: dict[str, tuple[ClaimRecord, RealClaim]] = {}

    @contextmanager
    def following(self) -> Iterator[None]:
        """Take note of changes of pods while the context is open."""
        with self.cache.pods.observed(self._pod_changed):
            yield

    def changes(self) -> ObservedChanges:
        """Return what has changed since the last call. Pods whose Node is not there yet come later."""
        leaves = set(self.cache.moving.nodes())
        removed = leaves | self._leaving
        evicted = [record for uid, record in self._ended.items() if uid in self._evicted or record.node_name in removed]
        for name in leaves - self._leaving:
            for record in self.cache.pods_by_key(name).values():
                if record.uid in self._records:
                    self._changed[record.uid] = record
        self._leaving = leaves
        postponed: dict[str, PodRecord] = {}
        present = []
        for uid, record in self._changed.items():
            if record.node_name and record.node_name not in self.cache.nodes and not record.deleting:
                postponed[uid] = record
            elif record.node_name or record.deleting or record.provisionable:
                present.append(self._live(record))
        ended = list(self._ended)
        self._ended, self._evicted, self._changed = {}, set(), postponed
        return ObservedChanges(present, ended, evicted)

    def place_of(self, uid: str) -> str | None:
        """Return the Node of a pod; empty if it has none, None if the pod does not exist or needs none any more."""
        record = self._records.get(uid)
        return None if record is None else record.node_name

    def pending(self) -> list[Pod]:
        """Return the pods that wait for capacity."""
        return [self.cache.planned_pod(record) for record in self.cache.pending()]

    def claims(self) -> list[ClaimRecord]:
        """Return the NodeClaims of the NodePools that the model has."""
        return [claim for claim in self.cache.claims if claim.pool in self.cache.pools]

    def real_claims(self) -> dict[str, RealClaim]:
        """Return the same NodeClaims for the comparison of purchases, by name."""
        claims: dict[str, tuple[ClaimRecord, RealClaim]] = {}
        for claim in self.claims():
            entry = self._real_claims.get(claim.name)
            claims[claim.name] = entry if entry is not None and entry[0] is claim else (claim, _real(claim))
        self._real_claims = claims
        return {name: real for name, (_, real) in claims.items()}

    def drifted(self) -> dict[str, str]:
        """Return the reason of the condition Drifted, by NodeClaim that has it."""
        return {
            claim.name: str(claim.condition("Drifted").get("reason") or "Drifted")
            for claim in self.claims()
            if claim.is_true("Drifted")
        }

    def boot_seconds(self) -> float:
        """Return how long nodes of this cluster take from their NodeClaim until they are ready, in the middle."""
        times = [
            (claim.initialized_at - claim.created_at).total_seconds()
            for claim in self.claims()[-BOOTS:]
            if claim.initialized_at is not None and claim.created_at is not None
        ]
        return float(median(times)) if times else USUAL_BOOT_SECONDS

    def outside_nodes(self) -> list[Node]:
        """Return the Nodes that belong to no NodePool of the model."""
        return [node for node in self.cache.scheduling_nodes() if not self._is_of_model(node.name)]

    def begin(self, now: float) -> tuple[list[ModelNode], dict[str, str]]:
        """Return the nodes with which the model begins, and by UID the node of each pod."""
        nodes: list[ModelNode] = []
        node_of: dict[str, str] = {}
        engine_nodes = {node.name: node for node in self.cache.scheduling_nodes()}
        for claim in self.claims():
            record = self.cache.node_of(claim)
            name = record.name if record is not None else claim.name
            node = engine_nodes.get(name)
            if node is None or leaving(record, claim):
                continue
            movable = [
                pod for pod in self.cache.pods_by_key(name).values() if not (pod.daemon or pod.mirror or pod.terminal)
            ]
            node_of |= {pod.uid: name for pod in movable if not pod.deleting}
            nodes.append(self._begun(claim, self._bare(node, movable), now))
        return nodes, node_of

    def _bare(self, node: Node, movable: Sequence[PodRecord]) -> Node:
        """Return a node without pods that need another one if it leaves, and without those that are on their way."""
        records = {pod.uid: self.cache.pods.get(pod.key) for pod in node.pods}
        coming_uids = {uid for uid, pod in records.items() if pod is not None and pod.uid == uid and not pod.node_name}
        bare = without_pods_of_model(node, coming_uids.union(pod.uid for pod in movable))
        ending = total(pod.pod.requests for pod in movable if pod.deleting)
        return replace(bare, used=subtract(bare.used, ending)) if ending else bare

    def _begun(self, claim: ClaimRecord, node: Node, now: float) -> ModelNode:
        created = claim.created_at.timestamp() if claim.created_at is not None else now
        ready = claim.initialized_at
        after = claim.expire_after_seconds
        record = self.cache.node_of(claim)
        last = self.cache.last_pod_event(record.name) if record is not None else None
        instance_type, zone, capacity_type = offering_of(claim)
        offering = {labels.INSTANCE_TYPE: instance_type, labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type}
        return ModelNode(
            name=node.name,
            pool=claim.pool,
            base=replace(node, labels={**node.labels, **offering}),
            created=created,
            ready=ready.timestamp() if ready is not None else now + self.boot_seconds(),
            version="",
            quiet=last or (ready.timestamp() if ready is not None else now),
            expires=None if after is None else created + after,
            claim=claim.name,
        )

    def _is_of_model(self, node_name: str) -> bool:
        record = self.cache.nodes.get(node_name)
        claim = self.cache.claim_of(record) if record is not None else self.cache.claims.get(node_name)
        return claim is not None and claim.pool in self.cache.pools

    def _live(self, record: PodRecord) -> LivePod:
        return LivePod(
            record,
            self.cache.recreated_pod(record),
            outside=bool(record.node_name) and not self._is_of_model(record.node_name),
            node_leaves=record.node_name in self._leaving,
        )

    def _pod_changed(self, _key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        if before is not None and (after is None or after.uid != before.uid):
            self._forget(before.uid)
        if after is None or after.mirror or after.daemon:
            return
        if after.terminal:
            self._forget(after.uid)
        else:
            self._records[after.uid] = self._changed[after.uid] = after

    def _forget(self, uid: str) -> None:
        record = self._records.pop(uid, None)
        if record is not None:
            self._ended[uid] = record
            self._changed.pop(uid, None)
            if record.node_name in self.cache.moving.nodes():
                self._evicted.add(uid)


def _real(claim: ClaimRecord) -> RealClaim:
    created = claim.created_at
    requests = (claim.spec.get("resources") or {}).get("requests") or {}
    pods = str(requests.get(PODS) or "")
    return RealClaim(
        claim.name,
        claim.pool,
        created.timestamp() if created is not None else 0.0,
        offering_of(claim),
        int(pods) if pods.isdecimal() else 0,
    )
