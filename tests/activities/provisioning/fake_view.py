"""A cluster in memory as planning and disruption see it, and the objects that it is made of."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Any

from activities.cluster_view.interfaces import DisruptionCluster, Fingerprint
from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.resources import NODECLAIMS, PODS, Resource
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.planned_pods import planned_pods
from tenon.kube.pod import Pod
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.provisioning.readiness import FreshChecks
from tenon.resources import Resources
from tenon.rollout.versions import PoolRollout
from tenon.scheduling.model import InstanceType, Node
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited
from tests.tenon.scheduling.builders import CATALOG

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
READY = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-03-01T00:00:00Z"}
UNREADY = {**READY, "status": "False"}


def loop_clock() -> Callable[[], datetime]:
    """A time of day that moves with the event loop's clock."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda: START + timedelta(seconds=loop.time() - began)


def node_pool(name: str = "default", edits: dict[str, Any] | None = None, **metadata: Any) -> NodePool:
    """A NodePool of any instance type."""
    manifest = edited(NODEPOOL, edits or {})
    manifest["metadata"] = {"name": name, "uid": f"uid-{name}", "generation": 1, **metadata}
    return NodePool.model_validate(manifest)


def node_class(name: str = "default", *conditions: dict[str, Any], **metadata: Any) -> EC2NodeClass:
    """An EC2NodeClass, ready unless its conditions are given."""
    manifest = copy.deepcopy(EC2NODECLASS)
    manifest["metadata"] = {"name": name, **metadata}
    manifest["status"] = {"conditions": list(conditions) or [READY]}
    return EC2NodeClass.model_validate(manifest)


class FakeView(FreshChecks):
    """What `ClusterView` asks for, as plain attributes; `tell` wakes those that wait. ``waits`` counts the waiting."""

    def __init__(self) -> None:
        self.wait_complete = True
        self.pods: list[Pod] = []
        self.claims: dict[str, ClaimRecord] = {}
        self.planned: dict[str, frozenset[str]] = {}
        self.launching: set[str] = set()
        self.pools = [node_pool()]
        self.classes = {"default": node_class()}
        self.pool_rollouts: dict[str, PoolRollout] = {}
        self.waves: list[NodePool] = []
        self.existing: list[Node] = []
        self.managed: list[ManagedNode] = []
        self.alone: list[ManagedNode] = []
        self.details: dict[str, NodeDetail] = {}
        self.warm: dict[str, str] = {}
        self.usage: Resources = {}
        self.bought: list[BoughtOffering] = []
        self.spaces: dict[str, dict[str, str]] = {"default": {}}
        self.node_overlays: list[NodeOverlay] = []
        self.eased = 0
        self.released: dict[str, int] = {}
        self.requests: dict[str, Resources] = {}
        self.used: set[str] = set()
        """NodeClaims whose planned pods got there, or whose room others took."""
        self.tainted: dict[str, str] = {}
        """NodeClaims with a taint that they do not declare."""
        self.waits = 0
        self.known_batch = 0
        self.behind: list[Collection[str]] = []
        self.on_catch_up: Callable[[], None] = lambda: None
        self.on_confirm: Callable[[], bool] = lambda: False
        self._news = asyncio.Event()

    def publish(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def add(self, *pods: Pod) -> None:
        self.pods += pods
        self.publish()

    def claim(
        self, name: str, *uids: str, leaving: bool = False, initialized_at: datetime | None = None, batch: int = 0
    ) -> None:
        ready = {"type": "Initialized", "status": "True", "lastTransitionTime": initialized_at}
        deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
        metadata = {
            "name": name,
            "labels": {labels.BATCH: str(batch), labels.NODEPOOL: "default"} if batch else {},
            **deleted,
        }
        body = {"metadata": metadata, "status": {"conditions": [ready] if initialized_at else []}}
        self.claims[name] = ClaimRecord.of(body)
        self.planned[name] = frozenset(uids)
        self.publish()

    def without(self, name: str) -> None:
        del self.claims[name]
        self.publish()

    def synced(self) -> bool:
        return self.wait_complete

    def fingerprint(self) -> Fingerprint:
        pools = tuple((pool.metadata.name, pool.metadata.generation) for pool in self.pools)
        overlays = tuple(overlay.metadata.name for overlay in self.node_overlays)
        return Fingerprint((pools, overlays), {name: dict(labels) for name, labels in self.spaces.items()})

    def snapshot(self) -> DisruptionCluster:
        return self

    def node_details(self, types: Mapping[str, Sequence[InstanceType]]) -> Mapping[str, NodeDetail]:
        return self.details

    def rollouts(self) -> Mapping[str, PoolRollout]:
        return self.pool_rollouts

    def wave_pools(self) -> Sequence[NodePool]:
        return self.waves

    def overlays(self) -> Sequence[NodeOverlay]:
        return self.node_overlays

    def pending_pods(self) -> Sequence[Pod]:
        return list(self.pods)

    def nodes(self) -> Sequence[Node]:
        return self.existing

    def daemons(self) -> Sequence[Pod]:
        return []

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return self.spaces

    def node_pools(self) -> Sequence[NodePool]:
        return self.pools

    def node_class(self, name: str) -> EC2NodeClass | None:
        return self.classes.get(name)

    def pool_usage(self, pool: str) -> Resources:
        return self.usage

    def purchases(self) -> Sequence[BoughtOffering]:
        return self.bought

    def claim_names(self) -> Set[str]:
        return self.claims.keys()

    def launching_pools(self) -> Set[str]:
        return self.launching

    def launching_claims(self) -> Sequence[ClaimRecord]:
        return [claim for claim in self.claims.values() if claim.pool in self.launching and claim.batch]

    def all_claims(self) -> Sequence[ClaimRecord]:
        return list(self.claims.values())

    def reserved_claims(self) -> Sequence[ClaimRecord]:
        return [claim for claim in self.claims.values() if labels.RESERVATION_ID in claim.labels]

    def claims_for(self, pod: Pod) -> Sequence[ClaimRecord]:
        staying = {name: claim for name, claim in self.claims.items() if not claim.deleting}
        return [claim for name, claim in staying.items() if pod.uid in self.planned[name]]

    def is_unused(self, claim: ClaimRecord, pod: Pod) -> bool:
        return claim.name not in self.used

    def undeclared_taint(self, claim: ClaimRecord, pod: Pod) -> str:
        return self.tainted.get(claim.name, "")

    def place_of(self, name: str) -> str:
        claim = self.claims.get(name)
        present_items = any(node.name == name for node in self.existing) or (claim is not None and not claim.deleting)
        return name if present_items else ""

    def newest_batch(self, up_to: int) -> int:
        return min(self.known_batch, up_to)

    async def catch_up(self, claims: Collection[str]) -> None:
        self.behind.append(claims)
        self.on_catch_up()

    async def confirm_pods(self) -> bool:
        return self.on_confirm()

    def quiet_since(self) -> Mapping[str, datetime]:
        return {name: detail.quiet_since for name, detail in self.details.items() if detail.quiet_since is not None}

    def evictions_allowed(self) -> int:
        return self.eased

    def pods_released(self) -> Mapping[str, int]:
        return self.released

    def requests_on_nodes(self) -> Mapping[str, Resources]:
        return self.requests

    def managed_nodes(self) -> Sequence[ManagedNode]:
        return self.managed

    def nodes_without_pool(self) -> Sequence[ManagedNode]:
        return self.alone

    def node_uid(self, name: str) -> str:
        nodes = {node.node for node in (*self.managed, *self.alone)}
        return f"uid-of-{name}" if name and name in nodes else ""

    def warm_nodes(self) -> Mapping[str, str]:
        return self.warm

    def warm_claim(self, node_name: str) -> ClaimRecord | None:
        return None

    async def changed(self, seconds: float) -> None:
        self.waits += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def nodes_changed(self, seconds: float) -> None:
        await self.changed(seconds)


class FakeTypes:
    """The small catalogue for every class, less what is unavailable."""

    def __init__(self) -> None:
        self.on_read: Callable[[], None] = lambda: None

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> Sequence[InstanceType]:
        self.on_read()
        return [kind for kind in CATALOG if not any(key.instance_type == kind.name for key in unavailable)]


class FakeClaims:
    """The API server's NodeClaims; after ``refuse_after`` of them writes fail. A view follows at once.

    ``answer`` is asked about each NodeClaim that is to be written: the error that it returns is the answer.
    """

    def __init__(self, view: FakeView | None = None) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.refuse_after: int | None = None
        self.answer: Callable[[dict[str, Any]], ApiError | None] = lambda _: None
        self.tries: list[str] = []
        self.requests: list[int] = []
        self.patched: dict[str, dict[str, str]] = {}
        """By NodeClaim that was patched: its annotations."""
        self._view = view

    async def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        if resource is PODS:
            return self.pods.get(f"{namespace}/{name}")
        assert resource is NODECLAIMS
        return self.objects.get(name)

    async def list(self, resource: Resource, *, label_selector: str = "") -> list[dict[str, Any]]:
        assert resource is NODECLAIMS
        if "=" in label_selector:
            key, _, value = label_selector.partition("=")
            return [b for b in self.objects.values() if b["metadata"]["labels"].get(key) == value]
        key, _, least = label_selector.partition(">")
        self.requests.append(int(least))
        return [b for b in self.objects.values() if int(b["metadata"]["labels"].get(key) or 0) > int(least)]

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        assert resource is NODECLAIMS
        if self.refuse_after is not None and len(self.objects) >= self.refuse_after:
            raise ApiError(500, "InternalError", "etcd is away")
        name = body["metadata"]["name"]
        self.tries.append(name)
        if (error := self.answer(body)) is not None:
            raise error
        if name in self.objects:
            raise ConflictError(409, "AlreadyExists", f"{name} exists")
        self.objects[name] = copy.deepcopy(body)
        if self._view is not None:
            self._view.claim(name, *(pod.uid for pod in planned_pods(body["metadata"]["annotations"])))
        return body

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        assert resource is NODECLAIMS
        assert not subresource
        metadata = self.objects[name]["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), **patch["metadata"].get("annotations", {})}
        self.patched[name] = metadata["annotations"]
        return self.objects[name]

    async def delete(self, resource: Resource, name: str, *, uid: str | None = None) -> bool:
        assert resource is NODECLAIMS
        return self.objects.pop(name, None) is not None
