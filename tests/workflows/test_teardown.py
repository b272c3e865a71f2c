"""A teardown on a real Temporal server: what it does when a node does not leave and the API server goes away."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.evolve import evolve
from tenon.messages.base import API_SERVER_UNREACHABLE, ActivityName
from tenon.messages.teardown import (
    DrainClusterInput,
    DrainClusterResult,
    DrainProgress,
    Leftover,
    MarkResult,
    Survey,
    TeardownInput,
    TeardownReport,
)
from tenon.record.entries import TeardownEntry
from tenon.teardown import page
from tenon.teardown.draining import FAILS_FOR
from tests.activities.record.kept import KeptRecord
from tests.replay.record import recording
from tests.replay.teardown_scenario import LATE, ONE, PROTECTED, Account
from worker.runtime.temporal.recorded_workflows import RecordInterceptor
from workflows import names
from workflows.teardown import MAX_HISTORY, TeardownWorkflow

pytestmark = pytest.mark.integration


class Outage(Account):
    """An account whose first rounds of a drain fail with an error of this type."""

    def __init__(self, kind: str, rounds: int) -> None:
        super().__init__()
        self.kind = kind
        self.failures = rounds
        self.drained: list[bool] = []
        """Each round that succeeded, and whether it was by force."""

    @activity.defn(name=ActivityName.DRAIN_CLUSTER)
    async def drain(self, drain_input: DrainClusterInput) -> DrainClusterResult:
        if self.failures:
            self.failures -= 1
            raise ApplicationError("no answer", type=self.kind, non_retryable=True)
        self.drained.append(drain_input.force)
        unmarked = [Leftover(kind="NodePool", name="web", why="denied")]
        return DrainClusterResult(unmarked=unmarked)


class GoneClusterAccount(Account):
    """An account whose cluster's API server never answers."""

    @activity.defn(name=ActivityName.STOP_BUYING)
    async def stop_buying(self, teardown_input: TeardownInput) -> MarkResult:
        raise ApplicationError("no answer", type=API_SERVER_UNREACHABLE, non_retryable=True)

    @activity.defn(name=ActivityName.DRAIN_CLUSTER)
    async def drain(self, drain_input: DrainClusterInput) -> DrainClusterResult:
        raise AssertionError("nobody can drain these nodes")


async def report_of(
    temporal: WorkflowEnvironment,
    cluster: str,
    record: KeptRecord,
    *,
    drain: DrainProgress | None = None,
    dry_run: bool = False,
    tags_only: bool = False,
    drain_seconds: float = 60.0,
    account: Account | None = None,
    replays: bool = False,
) -> TeardownReport:
    """The report of a teardown.

    ``drain``: what an earlier run hands on. ``replays``: each of its tasks replays all before it.
    """
    queue = names.task_queue(cluster)
    worker = Worker(
        temporal.client,
        task_queue=queue,
        workflows=[TeardownWorkflow],
        activities=(account or Account()).steps(),
        interceptors=[RecordInterceptor(record)],
        max_cached_workflows=0 if replays else 1000,
    )
    async with worker:
        return await temporal.client.execute_workflow(
            TeardownWorkflow.run,
            evolve(
                page.first_input(
                    cluster,
                    by="ann",
                    reason="moved",
                    dry_run=dry_run,
                    tags_only=tags_only,
                    drain_seconds=drain_seconds,
                ),
                drain=drain,
            ),
            id=names.teardown_id(cluster, dry_run=dry_run),
            task_queue=queue,
        )


async def test_a_teardown_drains_by_force_after_its_time_and_reports_once(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """EC2 refuses one instance and shows another late. The API server goes away before finalizers are removed."""
    record = KeptRecord()
    report = await report_of(temporal, cluster, record, replays=True)
    lines = [line.text for line in report.timeline]
    assert lines.index("1 NodeClaim left") < lines.index("deletes the pods that are left, even protected ones")
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}
    assert [item.name for item in report.leftovers] == [PROTECTED.id]
    assert report.skipped == {"remove finalizers of cluster": "the API server does not answer"}
    (entry,) = record.entries
    assert isinstance(entry, TeardownEntry)
    assert (entry.actor, entry.reason, entry.cluster) == ("ann", "moved", cluster)
    assert entry.leftovers == {f"instance {PROTECTED.id}": "it has termination protection"}


async def test_an_api_server_that_answers_again_within_the_drain_time_has_its_nodes_drained(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """What could not be marked in the last round is named as left."""
    account = Outage(API_SERVER_UNREACHABLE, 2)
    report = await report_of(temporal, cluster, KeptRecord(), account=account, drain_seconds=3600.0)
    assert account.drained == [False]
    assert report.skipped == {}
    assert ("NodePool", "web") in [(item.kind, item.name) for item in report.leftovers]


async def test_without_an_api_server_for_the_drain_time_the_teardown_goes_on(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    account = Outage(API_SERVER_UNREACHABLE, 1000)
    report = await report_of(temporal, cluster, KeptRecord(), account=account, drain_seconds=0.0)
    assert account.failures == 999
    assert report.skipped == {"drain nodes of cluster": "no answer"}
    assert "goes on without the API server" in [line.text for line in report.timeline]
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}


async def test_an_api_server_that_never_answers_is_not_waited_for(temporal: WorkflowEnvironment, cluster: str) -> None:
    report = await report_of(temporal, cluster, KeptRecord(), account=GoneClusterAccount(), drain_seconds=1e6)
    assert report.skipped["stop buying"] == "no answer"
    assert "has not answered since" in report.skipped["drain nodes of cluster"]
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}


async def test_no_other_failure_ends_nodes_without_a_drain(temporal: WorkflowEnvironment, cluster: str) -> None:
    account = Outage("ForbiddenError", 2)
    report = await report_of(temporal, cluster, KeptRecord(), account=account, drain_seconds=0.0)
    assert account.drained == [True]
    assert report.skipped == {}


def begun(since: timedelta, **progress: Any) -> DrainProgress:
    """What an earlier run hands on of a drain that began so long ago."""
    began = datetime.now(UTC) - since
    survey = Survey(instances=[ONE, PROTECTED], instance_count=2)
    started = TeardownReport(cluster="c", by="ann", reason="moved", started_at=began, survey=survey)
    progress = {"rounds": 300, "has_answered": True, **progress}
    return DrainProgress(report=started, since=began, **progress)


async def test_a_drain_that_fails_for_a_day_is_named_and_the_teardown_goes_on(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Somebody who mends the right within that time still has all nodes drained."""
    account, record = Outage("ForbiddenError", 1000), KeptRecord()
    day = begun(FAILS_FOR - timedelta(minutes=1), failing_since=datetime.now(UTC) - timedelta(days=1))
    report = await report_of(temporal, cluster, record, account=account, drain_seconds=0.0, drain=day)
    assert account.failures == 998, "the first of the two is within the day"
    assert report.skipped["drain nodes of cluster"] == "it has failed for 24 hours: no answer"
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}
    (entry,) = record.entries
    assert isinstance(entry, TeardownEntry)
    assert entry.seconds >= 24 * 3600, "it is one teardown, whichever run ended it"


async def test_a_drain_goes_on_in_the_next_run_as_it_was(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The time in which budgets hold began with the first run. What that one knew is in the report."""
    account = Outage("", 0)
    drain = begun(timedelta(seconds=61))
    report = await report_of(temporal, cluster, KeptRecord(), account=account, drain_seconds=60.0, drain=drain)
    assert account.drained == [True]
    assert report.started_at == drain.since
    assert report.survey.instance_count == 2
    assert {item.name for item in report.ended if item.kind == "instance"} == {ONE.id, LATE.id}


def test_a_long_drain_hands_on_what_it_has_seen() -> None:
    """Each round is an activity and a timer, so a drain of days would fill its history. This one was recorded."""
    recorded_runs = json.loads(gzip.decompress(recording("teardown").read_bytes())).items()
    histories = [WorkflowHistory.from_json(name, run) for name, name_runs in recorded_runs for run in name_runs]
    (history,) = (
        history
        for history in histories
        if history.events[-1].HasField("workflow_execution_continued_as_new_event_attributes")
    )
    attributes = history.events[-1].workflow_execution_continued_as_new_event_attributes
    drain = TeardownInput.model_validate_json(attributes.input.payloads[0].data).drain
    assert drain is not None
    assert drain.has_answered
    assert (drain.forced_at, drain.failing_since, drain.must_repeat) == (None, None, False)
    assert drain.since - drain.report.started_at < timedelta(minutes=1)
    assert drain.rounds > 20
    assert drain.report.survey.instance_count == 2
    assert MAX_HISTORY < len(history.events) < MAX_HISTORY + 30
    (resumed,) = (other for other in histories if other.run_id == attributes.new_execution_run_id)
    assert (
        "drain nodes of cluster"
        in [
            event.activity_task_scheduled_event_attributes.activity_type.name
            for event in resumed.events
            if event.HasField("activity_task_scheduled_event_attributes")
        ][:1]
    ), "it goes on with the drain"


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
