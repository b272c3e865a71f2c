"""Looks whether what an EC2NodeClass selects in AWS has changed, and pokes its workflow only then.

A look is no step of a workflow, so Temporal Cloud does not bill it. The workflow writes the status.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from temporalio.client import Client

from activities import metrics
from activities.ec2.nodeclass import UnansweredError
from activities.kubernetes.events import EventPublisher
from activities.nodeclass.pool_requirements import pool_requirements
from activities.nodeclass.warnings import WarningSource, publish_warnings
from activities.reported_gauges import end_all_but, report
from tenon.apis.conditions import READY, get_condition
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.apis.hashing import ec2nodeclass_hashes
from tenon.apis.teardown import is_torn_down
from tenon.apis.validation import parse
from tenon.ec2.families.cluster import Cluster
from tenon.kube.records import ObjectRecord
from tenon.kube.requirements import Requirements
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import ObjectController, backoff
from worker.controllers.workflow_start import ANSWER_WITHIN
from workflows import names
from workflows.nodeclass import NodeClassWorkflow

UNREADY_SECONDS = 60.0
"""Seconds between two looks at a class that is not ready, or whose status was out of date at the last look."""


class Resolver(WarningSource, Protocol):
    """What `activities.ec2.provider.Ec2Provider` finds out about a class."""

    cluster: Cluster

    def resolve_node_class(
        self, node_class: EC2NodeClass, kubernetes_version: str = "", pool_requirements: Sequence[Requirements] = ()
    ) -> EC2NodeClassStatus:
        """The class's new status. ``pool_requirements`` are those of each of its NodePools. Blocking."""
        ...

    def refresh_seconds(self, node_class: EC2NodeClass) -> float:
        """How soon to look at a ready class again."""
        ...


class NodeClassRefreshController(ObjectController):
    """Pokes the workflow of a class whose status, or whose hash, is out of date."""

    name = "nodeclass.refresh"
    object_field = "ec2nodeclass"
    topics = (Topic.NODECLASS,)

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        cluster: str,
        recorder: EventPublisher,
        ec2: Resolver,
        version: Callable[[], Awaitable[str]],
    ) -> None:
        """``version`` returns the Kubernetes version of the cluster."""
        super().__init__(cache)
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._ec2 = ec2
        self._version = version
        self._looks_at: dict[str, float] = {}
        """By name: when the class is looked at next."""
        self._pokes: dict[str, int] = {}
        """By name: how many looks in a row found the status out of date."""

    def initial(self) -> Sequence[Change]:
        """All EC2NodeClasses."""
        return [(Topic.NODECLASS, node_class.name) for node_class in self._cache.nodeclasses]

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Look at the classes whose time has come. One that is gone has no user data any more."""
        end_all_but(metrics.USER_DATA_BYTES, {node_class.name for node_class in self._cache.nodeclasses})
        return await super().reconcile(changes)

    async def reconcile_object(self, name: str) -> float | None:
        """Look at a class if its time has come. Another controller pokes the workflow of one that is new or changed.

        A look creates the instance profile of a class that has none, so none is taken after a teardown.
        """
        record = self._cache.nodeclasses.get(name)
        if record is None or record.deleting or is_torn_down(record.annotations):
            self._looks_at.pop(name, None)
            self._pokes.pop(name, None)
            return None
        node_class, _ = parse(EC2NodeClass, record.body)
        if node_class is None:
            return None  # it cannot be read before it changes
        report(metrics.USER_DATA_BYTES, {(name,): self._ec2.user_data_bytes(node_class)}, of=name)
        clock = asyncio.get_running_loop().time
        # A class that is no longer ready does not wait for the look of a ready one.
        due = min(self._looks_at.get(name, math.inf), clock() + self._pause(name, node_class))
        self._looks_at[name] = due
        if clock() < due:
            return due - clock()
        await self._look(record, node_class)
        self._looks_at[name] = clock() + self._pause(name, node_class)
        return self._looks_at[name] - clock()

    async def _look(self, record: ObjectRecord, node_class: EC2NodeClass) -> None:
        await publish_warnings(self._recorder, self._ec2, dict(record.body), node_class)
        if not await self._is_outdated(record, node_class):
            self._pokes.pop(record.name, None)
            return
        handle = self._client.get_workflow_handle(names.nodeclass_id(self._cluster, record.name))
        await handle.signal(NodeClassWorkflow.poke, rpc_timeout=ANSWER_WITHIN)
        self._pokes[record.name] = self._pokes.get(record.name, 0) + 1

    async def _is_outdated(self, record: ObjectRecord, node_class: EC2NodeClass) -> bool:
        hashes = ec2nodeclass_hashes(node_class, self._ec2.cluster.ca_bundle)
        if any(record.annotations.get(key) != value for key, value in hashes.items()):
            return True
        requirements = pool_requirements((pool.body for pool in self._cache.pools), record.name)
        try:
            status = await asyncio.to_thread(
                self._ec2.resolve_node_class, node_class, await self._version(), requirements
            )
        except UnansweredError as error:
            status = error.status  # the parts that AWS answered; the others are as before, and need no poke
        return bool(status.to_dict() != (record.body.get("status") or {}))

    def _pause(self, name: str, node_class: EC2NodeClass) -> float:
        """Seconds until the next look.

        Sooner after a poke, because the process that resolved the class may remember AWS's last answers for a while.
        """
        refresh_seconds = self._ec2.refresh_seconds(node_class)
        if pokes := self._pokes.get(name):
            return min(refresh_seconds, backoff(pokes - 1, UNREADY_SECONDS, refresh_seconds))
        ready = get_condition(node_class.status.conditions, READY)
        is_ready = ready is not None and ready.status == "True"
        return refresh_seconds if is_ready else min(UNREADY_SECONDS, refresh_seconds)
