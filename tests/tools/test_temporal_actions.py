"""What Temporal Cloud bills, counted from histories, and the bounds that docs/temporal-costs.md promises."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes
from typer.testing import CliRunner

from tools import temporal_costs
from tools.temporal_actions import BilledAction, actions, app, heartbeats
from tools.temporal_costs import commands, lives, quiet_day

MOST_OF_A_LIFE, MOST_OF_A_QUIET_DAY = 18, 300


def event(**attributes: Any) -> HistoryEvent:
    (name, values), *_ = attributes.items()
    return HistoryEvent(**{f"{name}_event_attributes": values})


@pytest.mark.parametrize("life", lives(), ids=lambda life: life.name)
def test_a_usual_life_of_a_node_costs_few_actions(life: temporal_costs.Cost) -> None:
    """Start, steps, timers, signals, attributes and heartbeats of launch, rest and end together."""
    assert life.actions <= MOST_OF_A_LIFE


def test_a_quiet_day_costs_few_actions() -> None:
    """Otherwise the idle clusters of a fleet cost more than its nodes."""
    assert sum(cost.actions for cost in quiet_day()) <= MOST_OF_A_QUIET_DAY


def test_each_command_of_the_page_is_recorded() -> None:
    assert all(cost.actions > temporal_costs.OWN_CALLS and cost.stored for cost in commands())


def test_an_activity_is_billed_with_its_retries() -> None:
    run = [event(activity_task_scheduled={}), event(activity_task_started={"attempt": 3})]
    assert actions(run) == {BilledAction.ACTIVITY: 3}


def test_the_local_activities_of_one_workflow_task_are_billed_together() -> None:
    run = [event(marker_recorded={"workflow_task_completed_event_id": task}) for task in (4, 4, 9)]
    assert actions(run) == {BilledAction.LOCAL: 2}


def test_a_signal_between_workflows_is_billed_once_at_its_sender() -> None:
    received = HistoryEvent(
        workflow_execution_signaled_event_attributes=WorkflowExecutionSignaledEventAttributes(
            external_workflow_execution=WorkflowExecution(workflow_id="w")
        )
    )
    assert actions([received]) == {}
    assert actions([event(workflow_execution_signaled={"signal_name": "poke"})]) == {BilledAction.SIGNAL: 1}
    signaled = event(signal_external_workflow_execution_initiated={"signal_name": "poke"})
    assert actions([signaled]) == {BilledAction.SIGNAL: 1}


def test_a_run_of_a_schedule_is_billed_three_times() -> None:
    search_attributes: dict[str, Any] = {"indexed_fields": {"TemporalScheduledById": {}}}
    started = event(workflow_execution_started={"search_attributes": search_attributes})
    assert actions([started]) == {BilledAction.START: 1, BilledAction.SCHEDULE: 2}
    assert actions([event(workflow_execution_started={})]) == {BilledAction.START: 1}


def test_timers_updates_attributes_and_children_are_billed_and_the_rest_is_not() -> None:
    run = [
        event(timer_started={}),
        event(workflow_execution_update_accepted={}),
        event(upsert_workflow_search_attributes={}),
        event(start_child_workflow_execution_initiated={}),
        event(workflow_task_scheduled={}),
        event(timer_fired={}),
        event(activity_task_completed={}),
        event(workflow_execution_completed={}),
    ]
    assert actions(run) == {
        BilledAction.TIMER: 1,
        BilledAction.UPDATE: 1,
        BilledAction.ATTRIBUTES: 1,
        BilledAction.CHILD: 1,
    }


@pytest.mark.parametrize(("seconds", "count"), [(20, 0), (22, 1), (44, 1), (46, 2)])
def test_a_wait_has_a_heartbeat_only_when_its_timeout_comes_near(seconds: float, count: int) -> None:
    assert heartbeats(timedelta(seconds=30), seconds) == count


def test_the_command_prints_each_workflow_of_a_recording() -> None:
    result = CliRunner().invoke(app, ["life-empty"])
    assert result.exit_code == 0
    assert "nodeclaim/life-empty/default-x1: " in result.stdout
    assert "actions" in result.stdout


def test_the_page_must_have_the_comments_around_its_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What Temporal costs\n")
    monkeypatch.setattr(temporal_costs, "PAGE", page)
    with pytest.raises(ValueError, match="table: lives"):
        temporal_costs.page_text()
