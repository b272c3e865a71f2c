"""Resolves what CapacityBuffers refer to, checks whether the cluster has room for them, and writes their status.

The floors that NodeSchedules ask for are treated alike, but have no object of their own. NodeSchedules may also set the
replicas of a buffer. This controller buys nothing. The batcher picks up the buffers that lack room, and the next plan
covers pods and buffers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from activities import loggers, metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import Types
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import (
    CAPACITYBUFFERS,
    DEPLOYMENTS,
    PODTEMPLATES,
    REPLICASETS,
    STATEFULSETS,
    Resource,
)
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.solving import MAX_SECONDS, Limit
from tenon.apis.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer, CapacityBufferStatus
from tenon.apis.conditions import transitions
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.apis.warm import STARTING
from tenon.evolve import evolve
from tenon.kube.pod import Pod
from tenon.kube.records import NamespacedRecord
from tenon.provisioning.buffer_feasibility import infeasible, one_pod_of_each
from tenon.provisioning.buffer_status import (
    POD_TEMPLATE_NOT_FOUND,
    SCALABLE_REF_NOT_FOUND,
    ResolvedBuffer,
    buffer_status,
    condition_reasons,
    refers_to,
    resolved,
    unreadable,
    why_unsupported,
)
from tenon.provisioning.fault_isolation import solve_isolated
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import PlannedCluster, problem_of
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.solving import solve_with_buffers
from tenon.provisioning.warm_nodes import with_warm_nodes
from tenon.scheduling.model import InstanceType, Plan
from worker.cache.buffer_pods import BufferPods
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

NAME = "capacitybuffer"

RECHECK = 30.0
"""Seconds after which everything is read and checked again, even if the cluster has not changed."""
RECHECK_SOON = 3.0
"""The same while a buffer refers to an object that does not exist, because it may be applied just after its buffer."""
COLLECT = 0.5
"""Seconds in which changes gather before the controller looks for room."""
SHARE = 0.05
"""The fraction of a core that looking for room may take on a busy cluster."""
MAX_PAUSE = 10.0
CONCURRENCY = 10
REFERRED: Mapping[str, Resource] = {
    resource.kind: resource for resource in (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODTEMPLATES)
}
NOT_FOUND = (SCALABLE_REF_NOT_FOUND, POD_TEMPLATE_NOT_FOUND)
Reserved = Callable[[], Mapping[str, Sequence[Pod]]]
PoolsWithTypes = Sequence[tuple[NodePool, Sequence[InstanceType]]]
"""NodePools, each with the types that its class can buy."""


class CapacityBufferController(Controller):
    """Reconciles every CapacityBuffer of the strategy that Tenon implements; others belong to other controllers."""

    name = NAME
    topics = (Topic.BUFFER, Topic.POOL, Topic.CLAIM, Topic.NODE, Topic.NODE_PODS)

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        view: PlanningView,
        room: BufferRoom,
        policy: PlanPolicy,
        reserved: Reserved,
        types: Types,
    ) -> None:
        """``reserved``: pods that earlier plans promised to nodes, whose room is taken. ``types``: what NodePools could
        launch if EC2 refused nothing.
        """
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._room = room
        self._policy = policy
        self._reserved = reserved
        self._types = types
        self._infeasible: Mapping[str, str] = {}
        """By buffer, why its pods can never have a node."""
        self._published: tuple[object, ...] = ()
        """The results of which the rest of the process has heard."""
        self._standing = BufferPods()
        self._resolved: dict[str, ResolvedBuffer] = {}
        self._read_at = float("-inf")
        """When the buffers are read again even if none of them changed."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Read the buffers that changed, or all if it is time to; look for room in any case."""
        clock = asyncio.get_running_loop().time
        if clock() >= self._read_at:
            await self.isolate("", self._read())
            self._read_at = clock() + (RECHECK_SOON if self._is_incomplete() else RECHECK)
        elif changed := {key for topic, key in changes if topic in (Topic.BUFFER, Topic.POOL)}:
            await self.isolate("", self._read(changed))
            if self._is_incomplete():
                self._read_at = min(self._read_at, clock() + RECHECK_SOON)
        await self.isolate("", self._simulate())
        return max(0.0, self._read_at - clock())

    def _is_incomplete(self) -> bool:
        return any(resolved_buffer.reason in NOT_FOUND for resolved_buffer in self._resolved.values())

    async def _read(self, changed: Collection[str] | None = None) -> None:
        """Resolve the pods of these buffers, or of all. One whose target could not be read keeps its last result."""
        records = [record for record in self._cache.buffers if self._followed(record)]
        floors = self._view.floors()
        to_resolve = [
            record for record in records if changed is None or record.key in changed or record.key not in self._resolved
        ]
        resolutions = await bounded(to_resolve, CONCURRENCY, self._resolve)
        answers = {record.key: answer for record, answer in zip(to_resolve, resolutions, strict=True)}
        resolved = {record.key: answers.get(record.key) or self._resolved.get(record.key) for record in records}
        self._resolved = {key: answer for key, answer in resolved.items() if answer is not None} | floors
        pods: list[Pod] = []
        for key, uid in [*((record.key, record.uid) for record in records), *((key, key) for key in floors)]:
            previous = self._resolved.get(key)
            try:
                pods += self._standing.of(key, uid, previous) if previous is not None else []
            except ValueError as error:
                self._resolved[key] = unreadable(f"its pods cannot be read: {error}")
        self._standing.forget_others(self._resolved)
        self._room.keep(pods, whole=len(self._resolved) == len(records) + len(floors))

    async def _resolve(self, record: NamespacedRecord) -> ResolvedBuffer | None:
        """Resolve one buffer. None if the API server could not answer."""
        buffer, faults = parse(CapacityBuffer, record.body)
        if buffer is None or faults:
            return unreadable("; ".join(str(fault) for fault in faults))
        if why := why_unsupported(buffer):
            return unreadable(why)
        buffer = self._scheduled(record.key, buffer)
        kind, name = refers_to(buffer)
        try:
            target = await self._kube.get(REFERRED[kind], name, record.body["metadata"]["namespace"])
        except ApiError as error:
            if self._log_limiter.count((record.key, error.status)) is not None:
                self._log.warning(
                    "The controller failed to read the target of a CapacityBuffer",
                    extra={"capacitybuffer": record.key, "error": str(error)},
                )
            return None if error.is_transient else unreadable(f"{kind} {name} could not be read: {error}")
        return resolved(buffer, target)

    def _scheduled(self, key: str, buffer: CapacityBuffer) -> CapacityBuffer:
        """The buffer with the replicas that schedules ask for now."""
        namespace, _, name = key.partition("/")
        replicas = self._view.schedules.now().buffers.get((namespace, name))
        if replicas is None:
            return buffer
        return evolve(buffer, spec=evolve(buffer.spec, replicas=replicas, percentage=None))

    async def _simulate(self) -> None:
        """Look for room on the existing nodes. Publish the result to the rest of the process, and to users in the
        status.
        """
        pods = self._room.pods()
        version = self._room.simulations
        ready: frozenset[str] = frozenset()
        plan = Plan()
        self._infeasible = {}
        if pods:
            refused = one_pod_of_each(pods, (key for key, room in self._room.rooms().items() if room.refused))
            pools_with_types = await self._launchable() if refused else ()
            plan, ready, self._infeasible, cost = await asyncio.to_thread(
                _simulated,
                self._view.snapshot(),
                {name: state for name, state in self._view.warm_nodes().items() if state == STARTING},
                pods,
                self._policy,
                self._reserved(),
                refused if pools_with_types else (),
                pools_with_types,
            )
            self.settle = min(MAX_PAUSE, max(COLLECT, cost / SHARE))
        if version == self._room.simulations:  # otherwise a plan has newer results
            self._room.simulated(plan, ready, bought=False)
        if (results := self._results()) != self._published:  # a plan too may have changed them
            self._published = results
            self._cache.changes.publish(Topic.BUFFER_ROOM, "")
        for record in self._cache.buffers:
            if record.key in self._resolved and not record.deleting:
                await self._write(record, self._resolved[record.key])

    async def _launchable(self) -> PoolsWithTypes:
        """What all NodePools for pods could launch if EC2 refused nothing. Empty if that is not known of one of them.

        A NodePool whose class is not ready may have types for the pods once it is.
        """
        pools = [pool for pool in self._view.node_pools() if pool.spec.replicas is None]
        if len(usable := usable_pools(pools, self._view.node_class, self._view)) < len(pools):
            return ()
        return (await instance_types_by_pool(self._view, self._types, usable)).pools_with_types

    def _results(self) -> tuple[object, ...]:
        """The results whose change must be published."""
        refused = frozenset((key, room.refused) for key, room in self._room.rooms().items())
        return self._room.known, self._room.hosts(), frozenset(pod.uid for pod in self._room.lacking()), refused

    async def _write(self, record: NamespacedRecord, resolved_buffer: ResolvedBuffer) -> None:
        buffer, _ = parse(CapacityBuffer, record.body)
        if buffer is None:
            return  # the API server rejects such an object
        room, infeasible = self._room.rooms().get(record.key), self._infeasible.get(record.key, "")
        status = buffer_status(buffer, resolved_buffer, room, utc_now(), infeasible)
        new_status = status.to_dict()
        removed_fields = {field: None for field in record.status if field not in new_status}
        changed = {
            field: value for field, value in new_status.items() if record.status.get(field) != value
        } | removed_fields
        if not changed:
            return
        try:
            await self._kube.patch(
                CAPACITYBUFFERS,
                record.name,
                {"status": changed},
                namespace=record.body["metadata"]["namespace"],
                subresource="status",
            )
        except ApiError as error:
            if self._log_limiter.count((record.key, error.status)) is not None:
                self._log.warning(
                    "The controller failed to write the status of a CapacityBuffer and retries",
                    extra={"capacitybuffer": record.key, "error": str(error)},
                )
            return
        before = _status(record).conditions
        for old, new in transitions(before, status.conditions):
            metrics.BUFFER_TRANSITIONS.labels(new.type, new.status, new.reason).inc()
            if old is not None:
                lasted = (new.last_transition_time - old.last_transition_time).total_seconds()
                metrics.BUFFER_TRANSITION_SECONDS.labels(old.type, old.status, new.status).observe(lasted)
        reasons = condition_reasons(status.conditions)
        if reasons != condition_reasons(before):
            self._log.info(
                "The conditions of a CapacityBuffer changed",
                extra={"capacitybuffer": record.key, "pod-count": resolved_buffer.count, "conditions": reasons},
            )

    @staticmethod
    def _followed(record: NamespacedRecord) -> bool:
        strategy = record.spec.get("provisioningStrategy") or ACTIVE_CAPACITY
        return strategy == ACTIVE_CAPACITY and not record.deleting


def _simulated(
    cluster: PlannedCluster,
    starting: Mapping[str, str],
    pods: Sequence[Pod],
    policy: PlanPolicy,
    reserved: Mapping[str, Sequence[Pod]],
    refused: Sequence[Pod],
    pools_with_types: PoolsWithTypes,
) -> tuple[Plan, frozenset[str], Mapping[str, str], float]:
    """Simulate the pods on the existing nodes.

    Args:
        starting: the state of the warm nodes that start for pods. This simulation starts no others.
        refused: one pod of each buffer for which the last plan could buy no node.
        pools_with_types: what NodePools could ever launch.

    Returns:
        The plan, the names of the initialized nodes, why the pods of ``refused`` can never have a node, by buffer, and
        the CPU seconds of this thread.
    """
    began = time.thread_time()
    problem = with_warm_nodes(problem_of(cluster, pods, [], policy, reserved), starting)
    isolated_plan = solve_isolated(problem, Limit(MAX_SECONDS), solve_with_buffers)
    if isolated_plan.error is not None:
        loggers.CAPACITY_BUFFER.error(
            "The scheduling engine failed on pods of CapacityBuffers",
            exc_info=isolated_plan.error,
            extra={"pods": [*isolated_plan.apart]},
        )
    plan = isolated_plan.plan
    ready = frozenset(node.name for node in problem.nodes if node.initialized)
    never: Mapping[str, str] = {}
    if refused:
        never = infeasible(
            problem_of(cluster, refused, pools_with_types, policy, reserved), refused, Limit(MAX_SECONDS)
        )
    return plan, ready, never, time.thread_time() - began


def _status(record: NamespacedRecord) -> CapacityBufferStatus:
    return CapacityBufferStatus.model_validate(dict(record.status))
