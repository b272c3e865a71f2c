"""What NodeSchedules ask for at an instant, from the objects and the clock alone.

No timer takes part, so every caller gets the same answer, however late. A missed time needs no repair. The only thing
that was learned before, how long nodes take to be Ready, is in the status of the schedules.

Of entries that overlap, in one schedule or in several, off wins; then the largest floor, replicas and headroom and the
smallest limits hold. In the boot time before a NodePool is off it launches nothing, because the node would leave before
it is of use.

Only what needs nodes begins a boot time early: floors, headroom, and replicas that are more than hold before. Fewer
replicas take nodes and limits forbid some, so these begin at the stated time. A NodePool wakes up a boot time before it
stops being off, with the replicas and limits of the time at which it stops.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tenon.apis.duration import PlainDuration
from tenon.apis.nodeschedule import NodeSchedule, ScheduleEntry
from tenon.resources import maximum, parse_resources
from tenon.schedule.windows import Window, merged, windows_of

HORIZON = timedelta(days=8)
"""How far ahead the next change is looked for. Almost every schedule repeats within a week."""
DEFAULT_BOOT = timedelta(minutes=5)
"""How long nodes take to be Ready before that was ever seen."""
_MARGIN = timedelta(hours=2)
"""More than the longest boot time."""


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What schedules ask for a NodePool."""

    off: bool = False
    """Whether it has no nodes."""
    launches: bool = True
    """Whether it may launch nodes. False also shortly before it is off."""
    floor_nodes: int = 0
    floor_spare: Mapping[str, int] = field(default_factory=dict)
    """Resources that no pod requests, in the units of `tenon.resources`."""
    replicas: int | None = None
    """The nodes of a static NodePool, instead of its own replicas."""
    replicas_at_least: int = 0
    """The replicas that soon hold instead of its own ones, which hold until then if they are more."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The most that it may have, in the units of `tenon.resources`."""
    entries: tuple[str, ...] = field(default=(), compare=False)
    """The entries that hold when it begins, for messages. Others that ask for the same may follow without a change."""

    @property
    def states_replicas(self) -> bool:
        """Whether an entry states replicas that hold now or soon."""
        return self.replicas is not None or self.replicas_at_least > 0


NOTHING = PoolDemand()
"""What holds for a NodePool while no schedule asks for anything."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A time in which the same holds for a NodePool."""

    start: datetime
    end: datetime
    demand: PoolDemand


@dataclass(frozen=True, slots=True)
class Desired:
    """What holds at an instant."""

    pools: Mapping[str, PoolDemand]
    """By NodePool, for those that a schedule names."""
    buffers: Mapping[tuple[str, str], int]
    """Replicas by namespace and name of a CapacityBuffer, for those that have any by schedule now."""
    until: Mapping[str, datetime]
    """By NodePool, when something else holds; without those that do not change within `HORIZON`."""
    opens: Mapping[str, datetime] = field(default_factory=dict)
    """When a NodePool launches nodes again, for those that do not now and will within `HORIZON`."""
    off_from: Mapping[str, datetime] = field(default_factory=dict)
    """When a NodePool that launches nothing because it is off soon is off."""
    buffers_change: datetime | None = None
    """When other replicas hold for a CapacityBuffer; None if they do not change within `HORIZON`."""

    @property
    def next_change(self) -> datetime | None:
        """When something else holds for a NodePool or a CapacityBuffer; None if nothing changes within `HORIZON`."""
        changes = [*self.until.values(), *([self.buffers_change] if self.buffers_change is not None else [])]
        return min(changes, default=None)


NOTHING_DESIRED = Desired({}, {}, {})
"""What holds without schedules."""


@dataclass(frozen=True, slots=True)
class _EntryWindow:
    """A window of an entry."""

    title: str
    entry: ScheduleEntry
    window: Window


def desired(schedules: Sequence[NodeSchedule], now: datetime) -> Desired:
    """Return what valid schedules ask for now. Times are on the clock of the first schedule that names the NodePool."""
    if not schedules:
        return NOTHING_DESIRED
    pools, until, opens, off_from = {}, {}, {}, {}
    for pool in pools_of(schedules):
        zone = zone_of(schedules, pool)
        first, *more = timeline(schedules, pool, now, now + HORIZON)
        pools[pool] = first.demand
        if more:
            until[pool] = first.end.astimezone(zone)
        if first.demand.launches:
            continue
        opening = next((segment.start for segment in more if segment.demand.launches), None)
        if opening is not None:
            opens[pool] = opening.astimezone(zone)
        if not first.demand.off:
            off_from[pool] = next(segment.start for segment in more if segment.demand.off).astimezone(zone)
    return Desired(pools, _buffers(schedules, now), until, opens, off_from, _buffers_change(schedules, now))


def zone_of(schedules: Sequence[NodeSchedule], pool: str) -> ZoneInfo:
    """Return the time zone of the first schedule in force, by name, that names the NodePool."""
    naming = (item for item in schedules if item.in_force and pool in item.spec.node_pools)
    return ZoneInfo(min((item.metadata.name, item.spec.time_zone) for item in naming)[1])


def pools_of(schedules: Sequence[NodeSchedule]) -> list[str]:
    """Return the names of all NodePools that schedules in force name, sorted."""
    return sorted({pool for schedule in schedules if schedule.in_force for pool in schedule.spec.node_pools})


def boot_time(schedules: Sequence[NodeSchedule], pool: str) -> timedelta:
    """Return how long before a stated time nodes of a NodePool are launched.

    That is the longest time that a schedule states, or else that a status knows, or else `DEFAULT_BOOT`.
    """
    stated_times = [_seconds(schedule.spec.boot_time) for schedule in schedules if schedule.spec.boot_time is not None]
    learned = (
        _seconds(row.boot_time)
        for schedule in schedules
        for row in schedule.status.node_pools
        if row.name == pool and row.boot_time is not None
    )
    return min(max(stated_times, default=max(learned, default=DEFAULT_BOOT)), _MARGIN)


def timeline(schedules: Sequence[NodeSchedule], pool: str, since: datetime, until: datetime) -> list[Segment]:
    """Return what valid schedules ask for a NodePool between two instants, without gaps, at least one segment."""
    active = [schedule for schedule in schedules if schedule.in_force and pool in schedule.spec.node_pools]
    boot = boot_time(active, pool) if active else timedelta()
    held_windows = _windows(active, since - _MARGIN, until + _MARGIN, lambda entry: not _only_headroom(entry))
    # A time off that is no longer than a boot has no effect: the NodePool would wake up before it is off.
    off = [
        window
        for window in merged([item.window for item in held_windows if item.entry.closed])
        if window.start < window.end - boot
    ]
    windows = [*off, *(item.window for item in held_windows)]
    edges_of_windows = {edge for window in windows for edge in (window.start, window.end)}
    changes = {edge for edge in edges_of_windows | {edge - boot for edge in edges_of_windows} if since < edge < until}
    edges = [since, *sorted(changes), until]
    segments: list[Segment] = []
    for start, end in itertools.pairwise(edges):
        demand = _demand(held_windows, off, boot, start)
        if segments and segments[-1].demand == demand:
            segments[-1] = Segment(segments[-1].start, end, demand)
        else:
            segments.append(Segment(start, end, demand))
    return segments


def _seconds(duration: PlainDuration) -> timedelta:
    return timedelta(seconds=duration.seconds or 0)


def _only_headroom(entry: ScheduleEntry) -> bool:
    return not entry.closed and entry.floor is None and entry.replicas is None and not entry.limits


def _earlier(window: Window, boot: timedelta) -> Window:
    return Window(window.start - boot, window.end)


def _windows(
    schedules: Sequence[NodeSchedule], since: datetime, until: datetime, is_meant: Callable[[ScheduleEntry], bool]
) -> list[_EntryWindow]:
    result = []
    for schedule in sorted(schedules, key=lambda schedule: schedule.metadata.name):
        for index, entry in enumerate(schedule.spec.entries):
            if is_meant(entry):
                title = f"{schedule.metadata.name}/{entry.name or index}"
                windows = windows_of(entry, schedule.spec.time_zone, since, until)
                result += [_EntryWindow(title, entry, window) for window in merged(list(windows))]
    return result


def _demand(windows: Sequence[_EntryWindow], off: Sequence[Window], boot: timedelta, instant: datetime) -> PoolDemand:
    """Return what holds at an instant. ``off``: the times off; the NodePool is awake in the last boot time of each."""
    time_off = next((window for window in off if window.includes(instant)), None)
    if time_off is not None and instant < time_off.end - boot:
        closing = [item for item in windows if item.entry.closed and item.window.includes(instant)]
        return PoolDemand(off=True, launches=False, entries=_titles(closing))
    opening = time_off.end if time_off is not None else instant
    early = [
        item
        for item in windows
        if not item.entry.closed and item.window.start - boot <= instant and opening < item.window.end
    ]
    begun = [item for item in early if item.window.start <= opening]
    floors = [item.entry.floor for item in early if item.entry.floor is not None]
    limits: dict[str, int] = {}
    for item in begun:
        for name, amount in parse_resources(item.entry.limits).items():
            limits[name] = min(amount, limits.get(name, amount))
    replicas = max((item.entry.replicas or 0 for item in early), default=0)
    has_replicas = any(item.entry.replicas is not None for item in begun)
    return PoolDemand(
        launches=not any(window.start - boot <= instant < window.end - boot for window in off),
        floor_nodes=max((floor.nodes or 0 for floor in floors), default=0),
        floor_spare=maximum(*(parse_resources(floor.spare) for floor in floors)),
        replicas=replicas if has_replicas else None,
        replicas_at_least=0 if has_replicas else replicas,
        limits=limits,
        entries=_titles(
            item for item in early if item.window.start <= opening or item.entry.floor or item.entry.replicas
        ),
    )


def _titles(windows: Iterable[_EntryWindow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.title for item in windows))


def _buffers(schedules: Sequence[NodeSchedule], now: datetime) -> dict[tuple[str, str], int]:
    replicas: dict[tuple[str, str], int] = {}
    for item in _headroom_windows(schedules, now, now + _MARGIN):
        if item.window.includes(now):
            for headroom in item.entry.headroom:
                key = (headroom.namespace, headroom.name)
                replicas[key] = max(headroom.replicas, replicas.get(key, 0))
    return replicas


def _buffers_change(schedules: Sequence[NodeSchedule], now: datetime) -> datetime | None:
    return min((edge for edge in headroom_changes(schedules, now, now + HORIZON) if edge > now), default=None)


def headroom_changes(schedules: Sequence[NodeSchedule], since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield when entries with headroom begin and end that overlap a time, in no order."""
    for item in _headroom_windows(schedules, since, until):
        yield from (item.window.start, item.window.end)


def _headroom_windows(schedules: Sequence[NodeSchedule], since: datetime, until: datetime) -> Iterator[_EntryWindow]:
    """Yield the times in which entries ask for headroom, each a boot time early."""
    for schedule in schedules:
        if not schedule.in_force or not any(entry.headroom for entry in schedule.spec.entries):
            continue
        boot = max(
            (boot_time([schedule], pool) for pool in schedule.spec.node_pools), default=boot_time([schedule], "")
        )
        for item in _windows([schedule], since, until + _MARGIN, lambda entry: bool(entry.headroom)):
            yield _EntryWindow(item.title, item.entry, _earlier(item.window, boot))
