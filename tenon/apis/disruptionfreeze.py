"""DisruptionFreeze (tenon.sh/v1alpha1): times in which the nodes of some NodePools are not disrupted.

A budget or a window is part of a NodePool, and belongs to who writes it. A freeze is an object of its own, so that one
person can stop all NodePools before a release, or for an hour, and take that back without editing any of them.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from tenon.apis.base import ApiModel, ComparedTimestamp, Rule, Timestamp
from tenon.apis.common import Conditions, ObjectMeta
from tenon.apis.disruption_windows import cron_problem, zone_problem
from tenon.apis.duration import BudgetDuration, Duration, PlainDuration
from tenon.apis.nodepool import SCHEDULE_PATTERN
from tenon.apis.noderepairpolicy import NodePoolSelector

MAX_WINDOWS = 50
MAX_POOLS = 100
MAX_TEXT = 256
MAX_EXPIRY_DELAY = "72h"
MAX_URL = 2048
MAX_EVENTS = 100
CALENDAR_URL = r"^https?://([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?([/?#][!-~]*)?$"
"""A URL without a user. Only the worker's settings say whether it may be one of plain HTTP."""


def _calendar_url(text: str) -> str:
    if re.fullmatch(CALENDAR_URL, text) is None:
        raise ValueError("is no URL of a calendar: write one such as https://example.com/a.ics, without a user")
    return text


class FreezeWindow(ApiModel):
    """A time that begins again and again."""

    schedule: Annotated[str, Field(json_schema_extra={"pattern": SCHEDULE_PATTERN})]
    """When it begins: cron with five fields, or @daily and the like, on the clock of the time zone."""
    duration: BudgetDuration
    """How long it lasts after each of these times, in hours and minutes."""
    timezone: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] = "UTC"
    """An IANA time zone, such as Europe/Berlin."""


class FreezeCalendar(ApiModel):
    """An iCalendar that the worker reads again and again."""

    url: Annotated[
        str, Field(max_length=MAX_URL, json_schema_extra={"pattern": CALENDAR_URL}), AfterValidator(_calendar_url)
    ]
    """Where it is, as an https URL."""
    timezone: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] = "UTC"
    """The IANA time zone of events that name none, such as those of whole days."""
    refresh_interval: PlainDuration = Duration("1h")
    """How often it is read. Less than 5m counts as 5m."""


class DisruptionFreezeSpec(ApiModel):
    """Which NodePools are meant, and when."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.startTime) || !has(self.endTime) || self.startTime < self.endTime",
            "endTime must be later than startTime",
        ),
    )

    node_pools: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]], Field(max_length=MAX_POOLS)
    ] = []
    """NodePools by name. Without names and without a selector, the freeze holds for all NodePools."""
    node_pool_selector: NodePoolSelector | None = None
    """NodePools by their labels, in addition to those by name."""
    start_time: ComparedTimestamp | None = None
    """When it begins; unset means at once."""
    end_time: ComparedTimestamp | None = None
    """When it ends; unset means that it lasts until the object is deleted."""
    windows: Annotated[list[FreezeWindow], Field(max_length=MAX_WINDOWS)] = []
    """The times between startTime and endTime in which it holds; none means all of it, or a calendar's events."""
    calendar: FreezeCalendar | None = None
    """An iCalendar whose events are times in which it holds too."""
    max_expiry_delay: PlainDuration = Duration(MAX_EXPIRY_DELAY)
    """How long an expired node waits for the end of the freeze at most."""
    reason: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    """Why, for all who ask why nodes stay."""
    requested_by: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    """Who asked for it; `tenon pause` writes it."""


class CalendarEvent(ApiModel):
    """A time in which events of the calendar happen."""

    start: Timestamp
    """When the first of them begins."""
    end: Timestamp
    """When the last of them ends."""


class CalendarStatus(ApiModel):
    """What is known of the calendar. If it cannot be read, the last times stay in force."""

    source: str = ""
    """A digest of the URL and the time zone to which the events belong."""
    last_read: Timestamp | None = None
    """When it was read last."""
    known_until: Timestamp | None = None
    """Nothing is known of later events, so the freeze holds from then on, until the calendar can be read again."""
    events: Annotated[list[CalendarEvent], Field(max_length=MAX_EVENTS)] = []
    """When events happen, without overlaps."""
    failure: str = ""
    """Why it could not be read at the last try."""


class DisruptionFreezeStatus(ApiModel):
    """The status of the freeze."""

    conditions: Conditions = []
    """Facts about the freeze."""
    active: bool | None = None
    """Whether it holds now."""
    next_change: Timestamp | None = None
    """When it begins or ends next; unset if time alone does not change it."""
    node_pools: Annotated[int, Field(ge=0)] | None = None
    """The number of NodePools that it selects."""
    calendar: CalendarStatus | None = None
    """What is known of its calendar."""


class DisruptionFreeze(ApiModel):
    """Times in which the nodes of some NodePools are not disrupted."""

    api_version: Literal["tenon.sh/v1alpha1"] = "tenon.sh/v1alpha1"
    kind: Literal["DisruptionFreeze"] = "DisruptionFreeze"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: DisruptionFreezeSpec = Field(default_factory=DisruptionFreezeSpec)
    status: DisruptionFreezeStatus = Field(default_factory=DisruptionFreezeStatus)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield its problems as `ApiModel.problems` does."""
        yield from freeze_problems(self.spec)


def freeze_problems(spec: DisruptionFreezeSpec) -> Iterator[tuple[str, str]]:
    """Yield the path and the sentence of each problem that the API server cannot see."""
    for index, window in enumerate(spec.windows):
        path = f"spec.windows[{index}]"
        if problem := cron_problem(window.schedule):
            yield f"{path}.schedule", problem
        if problem := zone_problem(window.timezone):
            yield f"{path}.timezone", problem
        if not window.duration.seconds:
            yield f"{path}.duration", "is not a time, so the window never begins"
    if spec.calendar is not None and (problem := zone_problem(spec.calendar.timezone)):
        yield "spec.calendar.timezone", problem
