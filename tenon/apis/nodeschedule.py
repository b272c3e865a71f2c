"""NodeSchedule (tenon.sh/v1alpha1): what holds for NodePools and CapacityBuffers at which times of the week.

Karpenter has schedules only in budgets, in UTC, and they say when nodes may not leave. This kind says, on the clock of
a time zone, how much a NodePool may or must have.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis import labels
from tenon.apis.base import Amounts, ApiModel, Rule, Timestamp, exactly_one
from tenon.apis.common import Conditions, ObjectMeta
from tenon.apis.disruption_windows import cron_problem, is_zone
from tenon.apis.duration import BudgetDuration, PlainDuration
from tenon.apis.nodepool import SCHEDULE_PATTERN

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

CLOCK_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
MAX_ENTRIES = 50
MAX_BOOT_SECONDS = 3600
MAX_DURATION_SECONDS = 7 * 24 * 3600
"""The most that one time of a cron schedule may last: a week, as everything repeats then."""
_MAX_COUNT = 2**31 - 1


class Floor(ApiModel):
    """The least that a NodePool keeps."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.nodes) || has(self.spare)", "a floor needs nodes or spare: what the NodePool keeps"),
    )

    nodes: Annotated[int, Field(ge=1, le=_MAX_COUNT)] | None = None
    """The number of nodes."""
    spare: Amounts = {}
    """CPU and memory that no pod requests."""


class Headroom(ApiModel):
    """How much room a CapacityBuffer keeps."""

    namespace: Annotated[str, Field(min_length=1, max_length=63)] = "default"
    """The namespace of the CapacityBuffer."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of the CapacityBuffer."""
    replicas: Annotated[int, Field(ge=0, le=_MAX_COUNT)]
    """How many pods to keep room for, instead of the buffer's own replicas."""


class ScheduleEntry(ApiModel):
    """Times that come again and again, and what holds then."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("cron", "from_", "an entry needs either cron and duration, or from and to"),
        Rule("has(self.cron) == has(self.duration)", "cron and duration must be given together"),
        Rule("has(self.from) == has(self.to)", "from and to must be given together"),
        Rule("!has(self.days) || self.days.size() == 0 || has(self.from)", "days needs from and to: cron has days"),
        Rule(
            "(has(self.closed) && self.closed) || has(self.floor) || has(self.replicas) || has(self.limits) || "
            "has(self.headroom)",
            "an entry needs closed, floor, replicas, limits or headroom: what holds at these times",
        ),
        Rule(
            "!has(self.closed) || !self.closed || !(has(self.floor) || has(self.replicas) || has(self.limits))",
            "closed leaves no room for floor, replicas and limits: remove them, or closed",
        ),
    )

    name: Annotated[str, Field(max_length=63)] = ""
    """A name for messages."""
    from_: Annotated[str, Field(pattern=CLOCK_PATTERN)] | None = None
    """When it begins on the clock of the time zone, such as 09:00."""
    to: Annotated[str, Field(pattern=CLOCK_PATTERN)] | None = None
    """When it ends, on the next day unless it is later than from. The same time as from is a whole day."""
    days: Annotated[list[Day], Field(max_length=7)] = []
    """The days on which it begins; empty means every day."""
    cron: Annotated[str, Field(json_schema_extra={"pattern": SCHEDULE_PATTERN})] | None = None
    """When it begins: cron with five fields, or @daily and the like, on the clock of the time zone."""
    duration: BudgetDuration | None = None
    """How long it lasts after each time of cron, in hours and minutes that pass; at most 168h."""
    closed: bool | None = None
    """Whether the NodePools are off: they have no nodes."""
    floor: Floor | None = None
    """The least that each NodePool keeps."""
    replicas: Annotated[int, Field(ge=0, le=_MAX_COUNT)] | None = None
    """The number of nodes of static NodePools, instead of their own replicas."""
    limits: Amounts = {}
    """The most that each NodePool may have, in addition to its own limits."""
    headroom: Annotated[list[Headroom], Field(max_length=100)] = []
    """CapacityBuffers and their replicas."""


class NodeScheduleSpec(ApiModel):
    """Which NodePools are meant, and what holds when."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.nodePools) && self.nodePools.size() > 0) || !self.entries.exists(entry, "
            "(has(entry.closed) && entry.closed) || has(entry.floor) || has(entry.replicas) || has(entry.limits))",
            "closed, floor, replicas and limits are for NodePools: name them in nodePools",
        ),
    )

    time_zone: Annotated[str, Field(min_length=1, max_length=64)]
    """An IANA time zone, such as Europe/Berlin."""
    node_pools: Annotated[list[Annotated[str, Field(min_length=1, max_length=63)]], Field(max_length=100)] = []
    """The names of the NodePools. Headroom needs none."""
    suspend: bool = False
    """Whether the schedule has no effect for now."""
    boot_time: PlainDuration | None = None
    """How long before the stated time nodes are launched. If unset, a little longer than nodes took of late, or 5m."""
    entries: Annotated[list[ScheduleEntry], Field(min_length=1, max_length=MAX_ENTRIES)]
    """What holds when. Of entries that overlap, closed wins, or else the largest floor and the smallest limits."""


class ScheduledNodePool(ApiModel):
    """What schedules ask for a NodePool now."""

    name: Annotated[str, Field(max_length=63)]
    """The name of the NodePool."""
    holds: Annotated[str, Field(max_length=500)] = ""
    """What holds, in words."""
    until: Timestamp | None = None
    """When something else holds; unset if that is more than eight days ahead."""
    boot_time: PlainDuration | None = None
    """The longest time that its nodes took of late from their creation until they were initialized."""


class NodeScheduleStatus(ApiModel):
    """The status of the schedule."""

    conditions: Conditions = []
    """Facts about the schedule."""
    node_pools: Annotated[list[ScheduledNodePool], Field(max_length=100)] = []
    """Its NodePools. All schedules that name a NodePool count."""
    next_change: Timestamp | None = None
    """When something else holds for one of its NodePools or CapacityBuffers."""
    paused: bool | None = None
    """Whether its Temporal Schedule is paused, so that it asks for nothing."""


class NodeSchedule(ApiModel):
    """What holds for NodePools and CapacityBuffers at which times."""

    api_version: Literal["tenon.sh/v1alpha1"] = "tenon.sh/v1alpha1"
    kind: Literal["NodeSchedule"] = "NodeSchedule"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodeScheduleSpec
    status: NodeScheduleStatus = Field(default_factory=NodeScheduleStatus)

    @property
    def in_force(self) -> bool:
        """Whether it asks for anything: neither its spec nor its Temporal Schedule suspends it."""
        return not (self.spec.suspend or self.status.paused)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield its problems as `ApiModel.problems` does."""
        yield from schedule_problems(self.spec)


def schedule_problems(spec: NodeScheduleSpec) -> Iterator[tuple[str, str]]:
    """Yield the path and the sentence of each problem that the API server cannot see."""
    if not is_zone(spec.time_zone):
        yield "spec.timeZone", f"{spec.time_zone!a} is not an IANA time zone: write one such as 'Europe/Berlin'"
    if spec.boot_time is not None and (spec.boot_time.seconds or 0) > MAX_BOOT_SECONDS:
        yield "spec.bootTime", f"'{spec.boot_time}' is more than 1h: write how long a node takes to be Ready"
    for index, entry in enumerate(spec.entries):
        path = f"spec.entries[{index}]"
        if entry.cron is not None and (problem := cron_problem(entry.cron)):
            yield f"{path}.cron", problem
        if entry.duration is not None:
            seconds = entry.duration.seconds or 0
            if not 0 < seconds <= MAX_DURATION_SECONDS:
                yield f"{path}.duration", f"'{entry.duration}' is not between 1m and 168h: write another duration"


def why_closed(annotations: Mapping[str, str]) -> str:
    """Return the clause that says why a NodePool launches nothing now by schedule; empty if it does.

    The annotation is on the NodePool that plans read (`tenon.schedule.node_pools`), and never on one in the cluster.
    """
    return annotations.get(labels.CLOSED_BY_SCHEDULE, "")
