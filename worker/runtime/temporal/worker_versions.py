"""Worker versioning in one io process: its version becomes Current, watches the routing, and is left in order.

With `Automatic`, for one Deployment whose pods Kubernetes replaces one after the other:

- The newest ReplicaSet's workers make their version Current once they serve, and are ready only then. So Kubernetes
  stops the last worker of the earlier version only when another one gets the tasks.
- A worker that stops while another version is Current first lets its runs go there. A run leaves at its next step.
- Workers without versioning do the same after it was turned off, until no version has runs.
- If the Current version has no worker, a worker of another version makes its own Current. Runs that stayed on a version
  without workers move to the Current one.

With `Manual`, an operator or Temporal's Worker Controller decides about versions. Workers say what they see, and those
of a version that drains ask its runs to go to the Current version, because it is removed only after that.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior
from temporalio.service import RPCError
from temporalio.worker import WorkerDeploymentConfig
from temporalio.workflow import NondeterminismError

from activities import loggers, metrics
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import DEPLOYMENTS, PODS, REPLICASETS, Resource
from tenon.apis.json_object import JsonObject, field_at
from tenon.messages.node import Poke
from tenon.messages.provisioning import LaunchReport
from worker.log_rate_limit import LogRateLimiter
from worker.own_namespace import own_namespace
from worker.runtime.temporal.version_routing import UNVERSIONED, Routing, VersionRouting, own_version
from worker.runtime.temporal.workflow_runner import TASK_FAILURES
from worker.settings import Settings
from workflows import names

log = loggers.TEMPORAL

DISABLED, AUTOMATIC, MANUAL = "Disabled", "Automatic", "Manual"
NOT_SERVING = "it does not serve workflows yet"
LOOK_EVERY = 30.0
"""Seconds between two looks at the routing."""
RETRY = 2.0
"""Seconds between two attempts to become Current. Temporal knows a version a moment after its first poll."""
RAMP_PERCENT = 20.0
"""The share of the workflows that a new version gets first, if WORKER_VERSION_RAMP is set."""
LEAVE_WITHIN = timedelta(minutes=4)
"""How long a worker that stops waits until its runs have gone to the Current version. A step takes up to 3 minutes."""
ASK_EVERY = 5.0
"""Seconds between two requests to these runs."""
ASK_DRAINING_EVERY = 300.0
"""Seconds between two requests to a run of a version that drains. The first may come before Temporal tells the run that
another version takes over, and each is a task and perhaps a step of the run."""
REVISION = "deployment.kubernetes.io/revision"
"""The annotation in which Kubernetes counts the revisions of a Deployment. A rollback counts too."""
SIGNALS: Mapping[str, tuple[str, list[Any]]] = {
    "NodeClaim": ("poke", [Poke()]),
    "NodeClass": ("poke", []),
    "Provisioner": ("launches_reported", [LaunchReport()]),
    "Disruption": ("settled", [[]]),
    "Rollout": ("poke", []),
}
"""By the type of a workflow, a signal that says nothing new. The run then sees that another version takes over. Runs of
other types end by themselves.
"""
ENDS_ON = (NondeterminismError,)


def deployment_config(settings: Settings) -> WorkerDeploymentConfig | None:
    """The versioning of the worker that runs workflows; None without worker versioning.

    Runs that have acted are pinned all the same (`worker/runtime/temporal/workflow_runner.py`).
    """
    if settings.worker_versioning == DISABLED:
        return None
    return WorkerDeploymentConfig(
        version=own_version(settings.cluster_name),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


def errors_that_end_runs(settings: Settings) -> tuple[type[BaseException], ...]:
    """The errors that end a workflow, instead of failing task after task.

    Without worker versioning, a run may meet a version that cannot replay it. It ends, and the leader starts the
    workflow again from the cluster and EC2. With versioning only a mistake leads to this, so the run stays and an alert
    says so.
    """
    return ENDS_ON if settings.worker_versioning == DISABLED else ()


class WorkerVersions:
    """The version of this process, and what it knows and does about the others."""

    def __init__(self, settings: Settings, is_newest: Callable[[], Awaitable[bool]]) -> None:
        """``is_newest``: whether this process is of the newest revision, the one that is to serve."""
        self._settings = settings
        self._is_newest = is_newest
        self._own = own_version(settings.cluster_name)
        self.build_id = self._own.build_id if settings.worker_versioning != DISABLED else UNVERSIONED
        self._identity = f"{os.getpid()}@{socket.gethostname()}"
        self._client: Client | None = None
        self._asked_at: dict[str, float] = {}
        """By run ID, when a run was asked last to leave this version, which drains."""
        self._waits = NOT_SERVING if settings.worker_versioning == AUTOMATIC else ""
        self._limiter = LogRateLimiter()

    def why_not_ready(self) -> str:
        """Why this process does not get tasks although it should. Empty if it does, or if it does not take part."""
        return self._waits

    async def run(self, client: Client) -> None:
        """Become Current, then watch, until cancelled. The workers of this process must poll already."""
        self._client = client
        routing = self._routing(client)
        not_serving = self._waits
        try:
            if await self._decides():
                await self._until_answered(lambda: self._take_over(routing))
            self._waits = ""
            while self.build_id != UNVERSIONED:
                await self._until_answered(lambda: self._look(routing))
                await asyncio.sleep(LOOK_EVERY)
            await self._until_answered(lambda: self._adopt_versioned_runs(routing))
        finally:
            self._client, self._waits = None, not_serving

    async def leave(self, within: timedelta = LEAVE_WITHIN) -> None:
        """Wait until no run is pinned to this version, if another version with workers is Current.

        Without it, those runs would wait for a worker of this version.
        """
        if self._settings.worker_versioning != AUTOMATIC or self._client is None:
            return
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._until_answered(partial(self._until_left, self._client))
        except TimeoutError:
            log.warning(
                "Runs are still pinned to this version of the worker, and the Current version takes them over",
                extra={"build-id": self.build_id},
            )

    def _routing(self, client: Client) -> VersionRouting:
        return VersionRouting(client, self._own.deployment_name, names.task_queue(self._settings.cluster_name))

    async def _decides(self) -> bool:
        """Whether this process changes the routing at its start."""
        return self._settings.worker_versioning in (DISABLED, AUTOMATIC) and await self._is_newest()

    async def _until_answered(self, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await call()
                return
            except RPCError as error:
                if self._limiter.count(error.message) is not None:
                    log.info(
                        "Temporal does not answer about versions of the worker, and the worker asks again",
                        extra={"build-id": self.build_id, "error": error.message},
                    )
                await asyncio.sleep(RETRY)

    async def _take_over(self, routing: VersionRouting) -> None:
        """Make the own version Current, after a ramp if one is set."""
        before = await routing.read()  # None, and then an error below, until Temporal has seen the first poll
        if self.build_id == UNVERSIONED:
            if before is not None and before.current != UNVERSIONED:
                await self._make_current(routing, before)
            return
        if before is None or before.current != self.build_id:
            self._waits = f"version {self.build_id} of the worker is not Current yet"
            if before is not None and before.current != UNVERSIONED:
                await self._ramp(routing)
            await self._make_current(routing, before or Routing())
        metrics.WORKER_VERSION_SERVES.labels(self.build_id).set(1)

    async def _ramp(self, routing: VersionRouting) -> None:
        """Take a share of the workflows for a while. Goes on only if no workflow task failed meanwhile."""
        lasts = self._settings.worker_version_ramp.total_seconds()
        if not lasts:
            return
        failed = TASK_FAILURES.count
        await routing.ramp(self.build_id, RAMP_PERCENT, self._identity)
        log.info("The version of this worker is Ramping", extra={"build-id": self.build_id, "percent": RAMP_PERCENT})
        self._waits = f"version {self.build_id} of the worker is Ramping with {RAMP_PERCENT:.0f} % of the workflows"
        clock = asyncio.get_running_loop().time
        until = clock() + lasts
        while clock() < until and TASK_FAILURES.count == failed:  # noqa: ASYNC110 - other threads count
            await asyncio.sleep(min(RETRY, lasts))
        if TASK_FAILURES.count == failed:
            return
        await routing.ramp(self.build_id, 0, self._identity)
        self._waits = (
            f"workflow tasks failed on version {self.build_id} of the worker while it was Ramping, and another version "
            "has all workflows again: roll back, or deploy a version without the error"
        )
        log.error(
            "Workflow tasks failed on the Ramping version of the worker, and the Current version has all of them again",
            extra={"build-id": self.build_id},
        )
        await asyncio.Event().wait()  # the rollout stops here, because this worker is not ready

    async def _make_current(self, routing: VersionRouting, before: Routing) -> None:
        if before.ramping not in (self.build_id, UNVERSIONED):
            await routing.ramp(before.ramping, 0, self._identity)
        await routing.make_current(self.build_id, self._identity)
        log.info(
            "The version of this worker is Current",
            extra={"build-id": self.build_id, "previous-build-id": before.current},
        )

    async def _look(self, routing: VersionRouting) -> None:
        """Look at the routing once, and see to it that no workflow waits for a worker."""
        observed = await routing.read() or Routing()
        if self._settings.worker_versioning == AUTOMATIC:
            if not observed.serves(self.build_id) and not await routing.has_worker(observed.current):
                log.warning(
                    "The Current version has no worker, and the version of this worker takes its place",
                    extra={"build-id": self.build_id, "previous-build-id": observed.current},
                )
                await self._make_current(routing, observed)
                observed = Routing(current=self.build_id, draining=observed.draining)
            if observed.current == self.build_id:
                for build_id in observed.draining:
                    await self._adopt(routing, build_id)
        if self._settings.worker_versioning == MANUAL and self.build_id in observed.draining:
            await self._drain(routing, observed.current)
        serves = observed.serves(self.build_id)
        metrics.WORKER_VERSION_SERVES.labels(self.build_id).set(int(serves))
        if not serves and self._limiter.count("not routed") is not None:
            log.info(
                "Temporal sends no new workflows to the version of this worker, which is neither Current nor Ramping",
                extra={"build-id": self.build_id, "current-build-id": observed.current},
            )

    async def _drain(self, routing: VersionRouting, current: str) -> None:
        """Ask the runs that are pinned to this version to leave it. Otherwise some would rest on it for a day."""
        if not await routing.has_worker(current):
            return
        now = asyncio.get_running_loop().time()
        runs = await routing.pinned_runs(self.build_id)
        asked_at = {run_id: self._asked_at[run_id] for _, _, run_id in runs if run_id in self._asked_at}
        for workflow_type, workflow_id, run_id in runs:
            if now >= asked_at.get(run_id, float("-inf")) + ASK_DRAINING_EVERY and self._client is not None:
                await self._ask_to_leave(self._client, workflow_type, workflow_id, run_id)
                asked_at[run_id] = now
        self._asked_at = asked_at

    async def _adopt_versioned_runs(self, routing: VersionRouting) -> None:
        """Take over the runs of versions whose workers are gone, after worker versioning was turned off."""
        while (observed := await routing.read()) is not None and observed.draining:
            if observed.current == UNVERSIONED:
                for build_id in observed.draining:
                    await self._adopt(routing, build_id)
            await asyncio.sleep(LOOK_EVERY)

    async def _adopt(self, routing: VersionRouting, build_id: str) -> None:
        """Take over the runs of a version that has no worker any more."""
        if await routing.has_worker(build_id):
            return
        if moved := await self._move_all(routing, build_id):
            log.warning(
                "Runs were pinned to a version without workers, and go on on the Current version",
                extra={"workflow-ids": moved, "previous-build-id": build_id},
            )

    async def _move_all(self, routing: VersionRouting, build_id: str) -> list[str]:
        """Let this version run the next tasks of the runs that are pinned to ``build_id``. Returns their IDs."""
        runs = await routing.pinned_runs(build_id)
        for _, workflow_id, run_id in runs:
            await routing.move(workflow_id, run_id, self.build_id)
        return sorted(workflow_id for _, workflow_id, _ in runs)

    async def _until_left(self, client: Client) -> None:
        routing = self._routing(client)
        observed = await routing.read() or Routing()
        if observed.current == self.build_id or not await routing.has_worker(observed.current):
            return
        empty = 0
        while empty < 2:  # Temporal's list of runs is a moment late
            runs = await routing.pinned_runs(self.build_id)
            empty = 0 if runs else empty + 1
            for workflow_type, workflow_id, run_id in runs:
                await self._ask_to_leave(client, workflow_type, workflow_id, run_id)
            await asyncio.sleep(ASK_EVERY if runs else RETRY)

    async def _ask_to_leave(self, client: Client, workflow_type: str, workflow_id: str, run_id: str) -> None:
        """Give a run a task, in which it sees that another version takes over."""
        if workflow_type not in SIGNALS:
            return
        signal, arguments = SIGNALS[workflow_type]
        try:
            await client.get_workflow_handle(workflow_id, run_id=run_id).signal(signal, args=arguments)
        except RPCError as error:  # the run has ended
            log.debug("A run did not take a signal", extra={"workflow-id": workflow_id, "error": error.message})


async def is_newest_revision(kube: Kube) -> bool:
    """Whether this pod is of the newest revision of its Deployment. True if that cannot be known, as outside a pod.

    Waits while the API server does not answer: in a rollout, an old process would otherwise make its version Current.
    """
    limiter = LogRateLimiter()
    while True:
        try:
            return await _has_newest_revision(kube)
        except ApiError as error:
            if not error.is_transient:
                log.warning(
                    "The worker cannot read the revision of its Deployment, and takes itself for the newest",
                    extra={"error": str(error)},
                )
                return True
            if limiter.count("revision") is not None:
                log.info(
                    "The API server does not say the revision of the worker's Deployment, and the worker asks again",
                    extra={"error": str(error)},
                )
            await asyncio.sleep(RETRY)


async def _has_newest_revision(kube: Kube) -> bool:
    pod_name = os.environ.get("POD_NAME") or os.environ.get("HOSTNAME", "")
    pod = await kube.get(PODS, pod_name, own_namespace()) if pod_name else None
    replica_set = await _owner(kube, pod, "ReplicaSet", REPLICASETS)
    deployment = await _owner(kube, replica_set, "Deployment", DEPLOYMENTS)
    if replica_set is None or deployment is None:
        return True
    revisions = [field_at(body, "metadata", "annotations", REVISION) for body in (replica_set, deployment)]
    return bool(revisions[0] == revisions[1])


async def _owner(kube: Kube, owned: JsonObject | None, kind: str, resource: Resource) -> JsonObject | None:
    """The owner of this kind, or None if there is none."""
    references = field_at(owned or {}, "metadata", "ownerReferences")
    if not isinstance(references, list):
        return None
    names_of_owners = [str(reference["name"]) for reference in references if reference.get("kind") == kind]
    return await kube.get(resource, names_of_owners[0], own_namespace()) if names_of_owners else None
