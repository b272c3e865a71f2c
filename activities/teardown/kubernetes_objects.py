"""The steps in Kubernetes: mark NodePools and EC2NodeClasses, ask nodes to leave, remove finalizers.

A node's own workflow cordons, drains and terminates it. Only what no workflow released in time is released here, after
its instance has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from activities.heartbeat import with_heartbeat
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError, WriteStoppedError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES, Resource
from tenon.apis import labels
from tenon.apis.managed import manages_claim, manages_pool, may_manage_node
from tenon.apis.teardown import is_torn_down, mark
from tenon.evolve import evolve
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import API_SERVER_UNREACHABLE, ActivityName, ErrorType
from tenon.messages.node import Operator
from tenon.messages.teardown import (
    MAX_LISTED,
    DrainClusterInput,
    DrainClusterResult,
    Leftover,
    MarkResult,
    RemovedThings,
    TeardownInput,
)
from tenon.node import ids
from tenon.node.release import OF_KUBERNETES, finalizer_message
from tenon.teardown.report import ALL

log = loggers.TEARDOWN

CONCURRENCY = 10
FINALIZERS = (labels.TERMINATION_FINALIZER, labels.NODECLASS_FINALIZER)
FINALIZER = "finalizer"
"""The kind of what was removed: objects that had one."""
Raw = Mapping[str, Any]


class ClusterObjects:
    """The activities of a teardown in Kubernetes, for the cluster of this name."""

    def __init__(self, kube: Kube | None, cluster: str) -> None:
        """``kube`` is None in a process that has no API server at hand."""
        self._given_kube = kube
        self._cluster = cluster

    def all(self) -> list[Callable[..., Any]]:
        """The activities to register."""
        return [self.stop_buying, self.drain, self.remove_finalizers]

    @activity.defn(name=ActivityName.STOP_BUYING)
    async def stop_buying(self, teardown_input: TeardownInput) -> MarkResult:
        """Mark all NodePools and EC2NodeClasses, so that no worker buys or makes anything for them."""
        kube = self._kube(teardown_input.cluster)
        with _typed():
            return await with_heartbeat(self._mark(kube))

    @activity.defn(name=ActivityName.DRAIN_CLUSTER)
    async def drain(self, drain_input: DrainClusterInput) -> DrainClusterResult:
        """Ask the workflow of each node to drain it, or to do so by force, and delete its NodeClaim."""
        kube = self._kube(drain_input.cluster)
        client = activity.client()
        operator = Operator(by=drain_input.by, reason=drain_input.reason, ticket=drain_input.ticket)

        async def ask() -> DrainClusterResult:
            # Somebody, or a controller of manifests, may have written objects again.
            unmarked = (await self._mark(kube)).problems
            unasked: list[Leftover] = []
            claims = [ClaimRecord.of(raw) for raw in await kube.list(NODECLAIMS) if manages_claim(raw)]

            async def leave(claim: ClaimRecord) -> None:
                if drain_input.force or not claim.deleting:
                    await self._ask(client, claim.name, operator, force=drain_input.force)
                if not claim.deleting:
                    await kube.delete(NODECLAIMS, claim.name, uid=claim.uid)

            async def one(claim: ClaimRecord) -> None:
                await _isolated(leave(claim), NODECLAIMS, claim.name, unasked)

            await bounded(claims, CONCURRENCY, one)
            names = sorted(claim.name for claim in claims)
            return DrainClusterResult(
                claims=names[:MAX_LISTED],
                claim_count=len(names),
                unmarked=unmarked,
                unasked=_in_order(unasked),
            )

        with _typed():
            return await with_heartbeat(ask())

    @activity.defn(name=ActivityName.REMOVE_FINALIZERS)
    async def remove_finalizers(self, teardown_input: TeardownInput) -> RemovedThings:
        """Delete the NodeClaims and Nodes that are left, and remove Tenon's finalizers, also from EC2NodeClasses."""
        kube = self._kube(teardown_input.cluster)
        removed: list[str] = []
        leftovers: list[Leftover] = []

        async def release(resource: Resource, raw: Raw) -> None:
            name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
            try:
                if resource is not EC2NODECLASSES:
                    await kube.delete(resource, name, uid=uid)
                if set(FINALIZERS) & set(object_json.finalizers(raw)):
                    await change(kube, resource, name, _without_finalizers, uid=uid)
                    removed.append(f"{resource.kind} {name}")
            except ApiError as error:
                if error.status == 0:
                    raise
                leftovers.append(Leftover(kind=resource.kind, name=name, why=str(error)))
                return
            others = set(object_json.finalizers(raw)) - set(FINALIZERS) - OF_KUBERNETES
            if others and resource is not EC2NODECLASSES:
                leftovers.append(Leftover(kind=resource.kind, name=name, why=finalizer_message(dict(raw))))

        async def work() -> None:
            claims = await kube.list(NODECLAIMS)
            foreign = {ClaimRecord.of(raw).node_name for raw in claims if not manages_claim(raw)}
            for raw in claims:
                if manages_claim(raw):
                    await release(NODECLAIMS, raw)
            for raw in await kube.list(NODES):
                is_own = may_manage_node(object_json.labels(raw)) and raw["metadata"]["name"] not in foreign
                if is_own and labels.TERMINATION_FINALIZER in object_json.finalizers(raw):
                    await release(NODES, raw)
            for raw in await kube.list(EC2NODECLASSES):
                await release(EC2NODECLASSES, raw)

        with _typed():
            await with_heartbeat(work())
        listed = {FINALIZER: sorted(removed)[:MAX_LISTED]} if removed else {}
        return RemovedThings(removed=listed, leftovers=_in_order(leftovers))

    async def _mark(self, kube: Kube) -> MarkResult:
        """Mark what can be marked. An object that the API server refuses to change does not stop the others."""
        patch = mark(activity.info().workflow_id or "")
        problems: list[Leftover] = []

        async def of_kind(resource: Resource, manages: Callable[[Any], bool]) -> list[str]:
            objects: list[Raw] = []

            async def read() -> None:
                objects.extend(raw for raw in await kube.list(resource) if manages(raw))

            async def one(raw: Raw) -> None:
                name = raw["metadata"]["name"]
                if not is_torn_down(object_json.annotations(raw)):
                    await _isolated(kube.patch(resource, name, patch), resource, name, problems)

            await _isolated(read(), resource, ALL, problems)
            await bounded(objects, CONCURRENCY, one)
            refused = {item.name for item in problems if item.kind == resource.kind}
            return sorted({str(raw["metadata"]["name"]) for raw in objects} - refused)[:MAX_LISTED]

        pools = await of_kind(NODEPOOLS, manages_pool)
        classes = await of_kind(EC2NODECLASSES, lambda _: True)
        unmarked = [evolve(item, why=f"it did not get the mark of the teardown: {item.why}") for item in problems]
        return MarkResult(pools=pools, classes=classes, problems=_in_order(unmarked))

    async def _ask(self, client: Client, claim: str, operator: Operator, *, force: bool) -> None:
        """Signal the workflow of a node. If none is open, the deletion of the NodeClaim has one started."""
        try:
            handle = client.get_workflow_handle(ids.nodeclaim_id(self._cluster, claim))
            await handle.signal("force_drain" if force else "drain", operator)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            extra = {"nodeclaim": claim, "cluster": self._cluster}
            log.info("A NodeClaim of a cluster that ends has no open workflow", extra=extra)

    def _kube(self, cluster: str) -> Kube:
        """The client of the API server.

        Raises:
            ApplicationError: this process has none, or serves another cluster.
        """
        if cluster != self._cluster or self._given_kube is None:
            is_other = cluster != self._cluster
            why = f"this worker serves {self._cluster}" if is_other else "no API server is at hand"
            kind = ErrorType.INVALID if is_other else ErrorType.NO_API_SERVER
            raise ApplicationError(why, type=kind.value, non_retryable=True)
        return self._given_kube


def _without_finalizers(raw: Raw) -> dict[str, Any]:
    finalizers = object_json.finalizers(raw)
    kept_finalizers = [finalizer for finalizer in finalizers if finalizer not in FINALIZERS]
    if len(kept_finalizers) == len(finalizers):
        return {}
    return {"metadata": {"finalizers": kept_finalizers}}


async def _isolated(work: Awaitable[object], resource: Resource, name: str, problems: list[Leftover]) -> None:
    """Do something with one object. What the API server or Temporal refuses is kept as a problem of that object.

    Raises:
        ApiUnreachableError: the API server did not answer, which concerns all objects.
    """
    try:
        await work
    except ApiUnreachableError:
        raise
    except (ApiError, RPCError) as error:
        problems.append(Leftover(kind=resource.kind, name=name, why=str(error)))


@contextmanager
def _typed() -> Iterator[None]:
    """Tell the workflow apart that the API server did not answer, which a worker that stands by cannot know.

    Raises:
        ApplicationError: the API server did not answer.
    """
    try:
        yield
    except WriteStoppedError:
        raise
    except ApiUnreachableError as error:
        raise ApplicationError(str(error), type=API_SERVER_UNREACHABLE) from error


def _in_order(problems: list[Leftover]) -> list[Leftover]:
    return sorted(problems, key=lambda item: (item.kind, item.name))[:MAX_LISTED]
