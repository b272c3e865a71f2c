"""Which version of the worker Temporal sends tasks to, and the calls that change it.

Only the task queue of the workflows is versioned. Long activities and planner calls have task queues of their own,
which workers of every version serve: messages are compatible both ways.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType, VersionDrainageStatus, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflow.v1 import WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client
from temporalio.common import (
    AutoUpgradeVersioningOverride,
    OneTimeVersioningOverride,
    VersioningOverride,
    WorkerDeploymentVersion,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from tenon import __version__
from workflows import names

DEPLOYMENT_NAME, BUILD_ID = "TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID"
"""Environment variables, which Temporal's Worker Controller sets too."""
POLL_LIMIT = timedelta(seconds=90)
"""Temporal lists a worker for minutes after it ended. One that runs polls at least once a minute."""
UNVERSIONED = ""
"""The build ID that stands for workers without versioning."""


@dataclass(frozen=True)
class Routing:
    """Who gets the tasks of a Worker Deployment."""

    current: str = UNVERSIONED
    """The build ID of the Current version."""
    ramping: str = UNVERSIONED
    """The build ID of the Ramping version."""
    percentage: float = 0.0
    draining: tuple[str, ...] = ()
    """Build IDs of earlier versions that may still have runs."""

    def serves(self, build_id: str) -> bool:
        """Whether this version gets new tasks."""
        return build_id in (self.current, self.ramping)


def own_version(cluster: str) -> WorkerDeploymentVersion:
    """The Worker Deployment and the version of this process."""
    return WorkerDeploymentVersion(
        os.environ.get(DEPLOYMENT_NAME) or names.task_queue(cluster), os.environ.get(BUILD_ID) or __version__
    )


class VersionRouting:
    """The routing of one Worker Deployment, whose workers serve ``queue``.

    Methods raise `RPCError` if Temporal does not answer or refuses.
    """

    def __init__(self, client: Client, deployment: str, queue: str) -> None:
        self._client = client
        self._service = client.workflow_service
        self._deployment = deployment
        self._queue = queue

    async def read(self) -> Routing | None:
        """The routing; None if Temporal does not know the deployment: no versioned worker has served it."""
        try:
            answer = await self._service.describe_worker_deployment(
                DescribeWorkerDeploymentRequest(namespace=self._client.namespace, deployment_name=self._deployment)
            )
        except RPCError as error:
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.UNIMPLEMENTED):
                return None
            raise
        deployment = answer.worker_deployment_info
        routing = deployment.routing_config
        draining = VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINING
        return Routing(
            current=routing.current_deployment_version.build_id,
            ramping=routing.ramping_deployment_version.build_id,
            percentage=routing.ramping_version_percentage,
            draining=tuple(
                summary.deployment_version.build_id
                for summary in deployment.version_summaries
                if summary.drainage_status == draining
            ),
        )

    async def make_current(self, build_id: str, identity: str) -> None:
        """Send all tasks to this version, and to no Ramping version. `UNVERSIONED`: to workers without versioning."""
        await self._service.set_worker_deployment_current_version(
            SetWorkerDeploymentCurrentVersionRequest(
                namespace=self._client.namespace,
                deployment_name=self._deployment,
                build_id=build_id,
                identity=identity,
                ignore_missing_task_queues=True,
            )
        )

    async def ramp(self, build_id: str, percentage: float, identity: str) -> None:
        """Send a share of the workflows to this version."""
        await self._service.set_worker_deployment_ramping_version(
            SetWorkerDeploymentRampingVersionRequest(
                namespace=self._client.namespace,
                deployment_name=self._deployment,
                build_id=build_id if percentage else UNVERSIONED,
                percentage=percentage,
                identity=identity,
                ignore_missing_task_queues=True,
            )
        )

    async def has_worker(self, build_id: str, now: datetime | None = None) -> bool:
        """Whether a worker of this version has polled for workflow tasks within `POLL_LIMIT`."""
        answer = await self._service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=self._queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                report_pollers=True,
            )
        )
        oldest = (now or utc_now()) - POLL_LIMIT
        return any(
            poller.last_access_time.ToDatetime(UTC) >= oldest
            for poller in answer.pollers
            if _build_id_of(poller) == build_id
        )

    async def pinned_runs(self, build_id: str) -> list[tuple[str, str, str]]:
        """Type, workflow ID and run ID of the open runs that only this version may run."""
        query = (
            f"TemporalWorkerDeploymentVersion = '{self._deployment}:{build_id}' AND "
            "TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'"
        )
        return [
            (execution.workflow_type, execution.id, execution.run_id)
            async for execution in self._client.list_workflows(query)
        ]

    async def move(self, workflow_id: str, run_id: str, build_id: str) -> None:
        """Let this version run the next task of a run, whichever version it is pinned to.

        A run that goes to `UNVERSIONED` workers goes to the Current version from then on.
        """
        override: VersioningOverride = AutoUpgradeVersioningOverride()
        if build_id != UNVERSIONED:
            override = OneTimeVersioningOverride(WorkerDeploymentVersion(self._deployment, build_id))
        await self._service.update_workflow_execution_options(
            UpdateWorkflowExecutionOptionsRequest(
                namespace=self._client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                workflow_execution_options=WorkflowExecutionOptions(versioning_override=override._to_proto()),
                update_mask=FieldMask(paths=["versioning_override"]),
            )
        )


def _build_id_of(poller: PollerInfo) -> str:
    options = poller.deployment_options
    is_versioned = options.worker_versioning_mode == WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    return options.build_id if is_versioned else UNVERSIONED
