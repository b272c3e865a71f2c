"""When DisruptionFreezes stop the disruption of a NodePool, and until when.

A freeze stops what Tenon does of its own accord: consolidation, emptiness, drift, and for a bounded time expiry. It
never stops an interruption, the repair of an unhealthy node, or what an operator asks for.

A freeze that cannot be understood holds until its author corrects it: a typing mistake must not cost a node. One whose
calendar has never been read holds too, and so does one whose calendar could not be read for very long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from tenon.apis.disruption_windows import DisruptionWindow
from tenon.apis.disruptionfreeze import MAX_EXPIRY_DELAY, DisruptionFreeze, DisruptionFreezeSpec, freeze_problems
from tenon.apis.duration import Duration
from tenon.apis.reasons import Reason
from tenon.disruption.freezes.calendar_times import CalendarTimes, known_times
from tenon.disruption.repair.user_policies import selector_of
from tenon.kube.timestamps import spoken

FROZEN_REASONS = frozenset(reason for reason in Reason if reason.traits.budgeted == "always") - {Reason.UNHEALTHY}
"""What a freeze stops for as long as it lasts. It stops expiry too, up to its limit."""
MAX_CHAIN = 10
"""How many windows that follow each other without a gap are looked at for the end of a freeze."""
_NO_DELAY = timedelta()


@dataclass(frozen=True, slots=True)
class Freeze:
    """One DisruptionFreeze, as the rules read it."""

    name: str
    start: datetime | None = None
    end: datetime | None = None
    windows: tuple[DisruptionWindow, ...] = ()
    """None means the whole time between start and end, unless there is a calendar."""
    calendar: CalendarTimes | None = None
    expiry_delay: timedelta = _NO_DELAY
    reason: str = ""
    by: str = ""

    def ends(self, now: datetime) -> datetime | None:
        """Return when what holds now ends, in local time; None if it does not hold, `NEVER` if it has no end."""
        if (self.start is not None and now < self.start) or (self.end is not None and now >= self.end):
            return None
        bound = self.end if self.end is not None else NEVER
        if self._is_always:
            return bound
        if self.calendar is not None and now >= self.calendar.known_until:
            return bound
        closings = [closing for source in self._sources if (closing := source.closing(now)) is not None]
        return min(max(closings), bound) if closings else None

    def begins(self, now: datetime) -> datetime | None:
        """Return when it begins next after now; None if it holds now or never will."""
        if self.ends(now) is not None or (self.end is not None and now >= self.end):
            return None
        after = now if self.start is None or self.start <= now else self.start
        if self.ends(after) is not None:
            return after
        if self._is_always:
            return None
        openings = [opening for source in self._sources if (opening := source.next_opening(after)) is not None]
        opening = min(openings, default=None)
        return opening if opening is not None and (self.end is None or opening < self.end) else None

    @property
    def _is_always(self) -> bool:
        """Whether it holds all the time between start and end."""
        return not self.windows and self.calendar is None

    @property
    def _sources(self) -> tuple[DisruptionWindow | CalendarTimes, ...]:
        """What says when it holds."""
        return self.windows if self.calendar is None else (*self.windows, self.calendar)


NEVER = datetime.max.replace(tzinfo=UTC)
"""The end of what has none."""


class Frozen(NamedTuple):
    """A freeze that holds now."""

    freeze: Freeze
    until: datetime
    """When no freeze of the NodePool holds any more, in local time; `NEVER` if time alone does not end it."""

    @property
    def clause(self) -> str:
        """That the NodePool is frozen, by whom, why and until when, as the end of a sentence."""
        return f"frozen {self.cause}"

    @property
    def cause(self) -> str:
        """By whom, why and until when, as the end of a sentence."""
        freeze = self.freeze
        by = f" of {freeze.by}" if freeze.by else ""
        why = f" ({freeze.reason})" if freeze.reason else ""
        until = "until it is deleted" if self.until == NEVER else f"until {spoken(self.until)}"
        return f"by DisruptionFreeze {freeze.name}{by}{why} {until}"


def freeze_of(model: DisruptionFreeze) -> Freeze:
    """Return the freeze of an object. One that has problems, or an unread calendar, holds all the time."""
    spec = model.spec
    if any(freeze_problems(spec)) or not _is_in_order(spec):
        return Freeze(model.metadata.name, reason="it cannot be understood", expiry_delay=_delay(spec))
    calendar = known_times(spec.calendar, model.status.calendar) if spec.calendar is not None else None
    if spec.calendar is not None and calendar is None:
        unread = "its calendar has not been read yet"
        return Freeze(model.metadata.name, spec.start_time, spec.end_time, expiry_delay=_delay(spec), reason=unread)
    return Freeze(
        name=model.metadata.name,
        start=spec.start_time,
        end=spec.end_time,
        windows=tuple(
            DisruptionWindow(window.schedule, timedelta(seconds=window.duration.seconds or 0), window.timezone)
            for window in spec.windows
        ),
        calendar=calendar,
        expiry_delay=_delay(spec),
        reason=spec.reason,
        by=spec.requested_by,
    )


def selects(spec: DisruptionFreezeSpec, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a freeze is meant for a NodePool, by its name and labels."""
    if not spec.node_pools and spec.node_pool_selector is None:
        return True
    by_labels = spec.node_pool_selector is not None and selector_of(spec.node_pool_selector).matches(labels)
    return by_labels or name in spec.node_pools


def freezes_for(models: Iterable[DisruptionFreeze], name: str, labels: Mapping[str, str]) -> tuple[Freeze, ...]:
    """Return the freezes that are meant for a NodePool with this name and these labels, in the order of their names."""
    selecting = [model for model in models if selects(model.spec, name, labels)]
    return tuple(freeze_of(model) for model in sorted(selecting, key=lambda model: model.metadata.name))


@lru_cache(maxsize=1024)
def is_frozen(freezes: tuple[Freeze, ...], now: datetime) -> bool:
    """Return whether a freeze holds now.

    It is asked for each node of a NodePool, so the answer is kept, and `frozen_now` says until when.
    """
    return any(freeze.ends(now) is not None for freeze in freezes)


@lru_cache(maxsize=1024)
def frozen_now(freezes: tuple[Freeze, ...], now: datetime) -> Frozen | None:
    """Return the freeze that holds now and lasts longest, and when no freeze holds any more; None if none holds.

    The answer is kept, because cron schedules are slow to evaluate.
    """
    lasting = _lasting(freezes, now)
    if lasting is None:
        return None
    freeze, until = lasting
    for _ in range(MAX_CHAIN):
        following = _lasting(freezes, until) if until != NEVER else None
        if following is None:
            break
        until = following[1]
    return Frozen(freeze, until)


def is_expiry_frozen(freezes: Sequence[Freeze], expired_at: datetime, now: datetime) -> bool:
    """Return whether an expired node waits for a freeze."""
    return is_frozen(_delaying(freezes, expired_at, now), now)


def frozen_expiry(freezes: Sequence[Freeze], expired_at: datetime, now: datetime) -> Frozen | None:
    """Return the freeze that an expired node waits for, and until when at most; None if it need not wait."""
    waiting = _delaying(freezes, expired_at, now)
    frozen = frozen_now(waiting, now)
    if frozen is None:
        return None
    return Frozen(frozen.freeze, min(frozen.until, max(expired_at + freeze.expiry_delay for freeze in waiting)))


def _delaying(freezes: Sequence[Freeze], expired_at: datetime, now: datetime) -> tuple[Freeze, ...]:
    """Return the freezes that may still delay the end of a node that expired then."""
    return tuple(freeze for freeze in freezes if now < expired_at + freeze.expiry_delay)


def _lasting(freezes: Sequence[Freeze], now: datetime) -> tuple[Freeze, datetime] | None:
    holding = [(freeze, ends) for freeze in freezes if (ends := freeze.ends(now)) is not None]
    return max(holding, key=lambda pair: pair[1]) if holding else None


def _is_in_order(spec: DisruptionFreezeSpec) -> bool:
    return spec.start_time is None or spec.end_time is None or spec.start_time < spec.end_time


def _delay(spec: DisruptionFreezeSpec) -> timedelta:
    seconds = spec.max_expiry_delay.seconds
    return timedelta(seconds=(Duration(MAX_EXPIRY_DELAY).seconds or 0) if seconds is None else seconds)
