"""Reads the worker's plans from the provisioner's history in Temporal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from sandbox.cluster import Sandbox
from tenon.messages.base import ActivityName
from tenon.messages.provisioning import PlanResult
from workflows import names


@dataclass(frozen=True, slots=True)
class PlanMade:
    """One plan, from the start of its activity until its NodeClaims were written."""

    started: datetime
    completed: datetime
    result: PlanResult

    @property
    def seconds(self) -> float:
        """Duration of the activity."""
        return (self.completed - self.started).total_seconds()


async def connect(sandbox: Sandbox) -> Client:
    """Return a client of the sandbox's Temporal server."""
    return await Client.connect(sandbox.temporal_address, data_converter=pydantic_data_converter)


async def plans(client: Client, cluster: str) -> list[PlanMade]:
    """Return the plans of the provisioner's current run, oldest first."""
    history = await client.get_workflow_handle(names.provisioner_id(cluster)).fetch_history()
    return planned(history.events)


def planned(events: Iterable[Any]) -> list[PlanMade]:
    """Return the plans among the events of a history."""
    numbers: set[int] = set()
    started: dict[int, datetime] = {}
    plan_mades: list[PlanMade] = []
    for event in events:
        at = event.event_time.ToDatetime()
        if event.HasField("activity_task_scheduled_event_attributes"):
            if event.activity_task_scheduled_event_attributes.activity_type.name == ActivityName.PLAN.value:
                numbers.add(event.event_id)
        elif event.HasField("activity_task_started_event_attributes"):
            started[event.activity_task_started_event_attributes.scheduled_event_id] = at
        elif event.HasField("activity_task_completed_event_attributes"):
            done = event.activity_task_completed_event_attributes
            if done.scheduled_event_id in numbers:
                result = PlanResult.model_validate_json(done.result.payloads[0].data)
                plan_mades.append(PlanMade(started[done.scheduled_event_id], at, result))
    return plan_mades
