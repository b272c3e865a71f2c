"""The Temporal worker of a cluster's teardown, which has a task queue of its own.

The cluster's worker serves it. If no worker is left, `tenon teardown --local-worker` does. It has no version: a
teardown is short, and the command may be of another release than the worker.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.record.writer import NO_RECORD, RecordWriter
from activities.teardown.kubernetes_objects import ClusterObjects
from activities.teardown.open_workflows import end_workflows
from activities.teardown.resources import ClusterResources
from tenon import __version__
from worker.runtime.temporal.activity_lanes import Activity, by_lane
from worker.runtime.temporal.recorded_workflows import RecordInterceptor
from workflows import names
from workflows.options import TEARDOWN
from workflows.teardown import TeardownWorkflow

GRACEFUL = timedelta(seconds=5)


def teardown_queue(cluster: str) -> str:
    """The task queue of a cluster's teardown."""
    return names.lane_queue(names.task_queue(cluster), TEARDOWN)


def teardown_activities(cluster: str, ec2: Ec2Provider, kube: Kube | None) -> list[Activity]:
    """The activities of the teardown of this cluster."""
    steps = [*ClusterResources(ec2).all(), *ClusterObjects(kube, cluster).all(), end_workflows]
    return by_lane(steps, {TEARDOWN})[TEARDOWN]


def teardown_worker(
    client: Client, cluster: str, ec2: Ec2Provider, kube: Kube | None = None, record: RecordWriter = NO_RECORD
) -> Worker:
    """The worker for the teardown of this cluster. It mostly waits, so it needs few slots and polls.

    Without ``kube``, it works from EC2's tags alone.
    """
    return Worker(
        client,
        interceptors=[RecordInterceptor(record)],
        task_queue=teardown_queue(cluster),
        workflows=[TeardownWorkflow],
        activities=teardown_activities(cluster, ec2, kube),
        build_id=__version__,
        max_concurrent_activities=4,
        max_concurrent_workflow_task_polls=2,
        max_concurrent_activity_task_polls=1,
        max_cached_workflows=4,
        graceful_shutdown_timeout=GRACEFUL,
    )
