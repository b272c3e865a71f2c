"""A teardown on a real Temporal server: what it does when a node does not leave and the API server goes away."""

from __future__ import annotations

import pytest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.messages.teardown import TeardownReport
from tenon.record.entries import TeardownEntry
from tenon.teardown import page
from tests.activities.record.kept import KeptRecord
from tests.replay.teardown_scenario import LATE, ONE, PROTECTED, Account
from worker.runtime.recorded_workflows import RecordInterceptor
from workflows import names
from workflows.teardown import TeardownWorkflow

pytestmark = pytest.mark.integration


async def report_of(
    temporal: WorkflowEnvironment, cluster: str, record: KeptRecord, *, dry_run: bool = False, tags_only: bool = False
) -> TeardownReport:
    """The report of a teardown, of which each task replays all before it."""
    queue = names.task_queue(cluster)
    worker = Worker(
        temporal.client,
        task_queue=queue,
        workflows=[TeardownWorkflow],
        activities=Account().steps(),
        interceptors=[RecordInterceptor(record)],
        max_cached_workflows=0,
    )
    async with worker:
        return await temporal.client.execute_workflow(
            TeardownWorkflow.run,
            page.first_input(
                cluster, by="ann", reason="moved", dry_run=dry_run, tags_only=tags_only, drain_seconds=60.0
            ),
            id=names.teardown_id(cluster, dry_run=dry_run),
            task_queue=queue,
        )


async def test_a_teardown_drains_by_force_after_its_time_and_reports_once(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """EC2 refuses one instance and shows another late. The API server goes away before finalizers are removed."""
    record = KeptRecord()
    report = await report_of(temporal, cluster, record)
    lines = [line.text for line in report.timeline]
    assert lines.index("1 NodeClaim left") < lines.index("deletes the pods that are left, even protected ones")
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}
    assert [item.name for item in report.leftovers] == [PROTECTED.id]
    assert report.skipped == {"remove finalizers of cluster": "the API server does not answer"}
    (entry,) = record.entries
    assert isinstance(entry, TeardownEntry)
    assert (entry.actor, entry.reason, entry.cluster) == ("ann", "moved", cluster)
    assert entry.leftovers == {f"instance {PROTECTED.id}": "it has termination protection"}


async def test_by_tags_alone_the_steps_in_kubernetes_are_named_as_skipped(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    report = await report_of(temporal, cluster, KeptRecord(), tags_only=True)
    assert set(report.skipped) == {"stop buying", "drain nodes of cluster", "remove finalizers of cluster"}
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}


async def test_a_dry_run_ends_after_its_survey_and_records_nothing(temporal: WorkflowEnvironment, cluster: str) -> None:
    record = KeptRecord()
    report = await report_of(temporal, cluster, record, dry_run=True)
    assert (report.dry_run, report.ended, report.survey.instance_count) == (True, [], 2)
    assert record.entries == []
