"""Creates and corrects Temporal Schedules, and leaves an operator's pause as it is."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from worker.controllers.ensured_schedule import EnsuredSchedule
from worker.runtime.temporal.encrypted_payloads import KEY_ID, PayloadCodecError


async def ensure_schedule(client: Client, schedule_id: str, schedule: Schedule) -> EnsuredSchedule:
    """Create the Schedule, or correct it if it differs.

    Raises:
        RPCError: Temporal cannot do it now.
    """
    essence = await _compared_fields(client, schedule)
    is_paused = changed = False

    async def update(update_input: ScheduleUpdateInput) -> ScheduleUpdate | None:
        nonlocal changed, is_paused
        present = update_input.description.schedule
        is_paused = present.state.paused
        if await _compared_fields(client, present) == essence:
            return None
        changed = True
        schedule.state = present.state
        return ScheduleUpdate(schedule=schedule)

    try:
        await client.get_schedule_handle(schedule_id).update(update)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        await client.create_schedule(schedule_id, schedule)
        return EnsuredSchedule(changed=True, paused=False)
    return EnsuredSchedule(changed, is_paused)


async def _compared_fields(client: Client, schedule: Schedule) -> tuple[object, ...]:
    """The fields that must match. The server may rewrite the others."""
    action = schedule.action
    assert isinstance(action, ScheduleActionStartWorkflow)
    # A description holds the encoded arguments, as the server stores them.
    encoded = [argument for argument in action.args if isinstance(argument, Payload)]
    encoded = encoded or list(await client.data_converter.encode(action.args))
    return (
        action.workflow,
        action.id,
        action.task_queue,
        [argument.data for argument in await _decrypted(client, encoded)],
        # Also the key, so that the Schedule changes to a new one before the old one is removed.
        [(argument.metadata.get("encoding"), argument.metadata.get(KEY_ID)) for argument in encoded],
        [argument.every for argument in schedule.spec.intervals],
        sorted(_instant(calendar) for calendar in schedule.spec.calendars),
        schedule.spec.jitter,
        schedule.policy.overlap,
        schedule.policy.catchup_window,
    )


def _instant(calendar: ScheduleCalendarSpec) -> tuple[int, ...]:
    """The instant that a calendar entry names, from its year to its second."""
    ranges = (
        calendar.year,
        calendar.month,
        calendar.day_of_month,
        calendar.hour,
        calendar.minute,
        calendar.second,
    )
    return tuple(parts[0].start for parts in ranges if parts)


async def _decrypted(client: Client, encoded: Sequence[Payload]) -> Sequence[Payload]:
    """The payloads without their encryption, which gives equal payloads different bytes."""
    codec = client.data_converter.payload_codec
    try:
        return encoded if codec is None else await codec.decode(encoded)
    except PayloadCodecError:  # their key is gone: what can be read replaces them
        return encoded
