"""When the instance of a NodeClaim was stopped, for which EC2 charges its disks alone.

The annotation has ISO 8601 intervals, such as ``2026-01-02T12:00:00Z/2026-01-02T13:00:00Z``, joined by commas. The last
one has no end while the instance is stopped. It stays when the node has become an ordinary one, for the bill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenon.apis import labels
from tenon.kube.timestamps import format_instant, parse_instant

MAX_TIMES = 20
"""How many intervals the annotation keeps, the newest ones. A warm node has one."""


@dataclass(frozen=True, slots=True)
class StoppedTime:
    """A time in which the instance was stopped."""

    since: datetime
    until: datetime | None = None
    """None if it is stopped now, or was until its end."""


def stopped_times(text: str) -> list[StoppedTime]:
    """Read the annotation, or a copy of it. Malformed intervals are left out."""
    times = []
    for interval in text.split(","):
        begin, _, end = interval.partition("/")
        since, until = parse_instant(begin.strip()), parse_instant(end.strip())
        if since is not None and (until is None or since < until):
            times.append(StoppedTime(since, until))
    return sorted(times, key=lambda time: time.since)


def stopped_now(annotations: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the annotation of a NodeClaim whose instance is stopped from now on, if it was not before."""
    times = stopped_times(annotations.get(labels.STOPPED_TIMES, ""))
    return {} if times and times[-1].until is None else _annotation([*times, StoppedTime(now)])


def started_now(annotations: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the annotation of a NodeClaim whose instance is started now; empty if it is not stopped."""
    times = stopped_times(annotations.get(labels.STOPPED_TIMES, ""))
    if not times or times[-1].until is not None:
        return {}
    return _annotation([*times[:-1], StoppedTime(times[-1].since, now)])


def runs(
    began: datetime, ended: datetime | None, times: Sequence[StoppedTime]
) -> list[tuple[datetime, datetime | None]]:
    """Return the times in which an instance ran, from its launch to its end, which is None while it lives."""
    result: list[tuple[datetime, datetime | None]] = []
    start: datetime | None = began
    for time in times:
        if start is not None and start < time.since and (ended is None or time.since < ended):
            result.append((start, time.since))
            start = time.until
    if start is not None and (ended is None or start <= ended):
        result.append((start, ended))
    return result


def _annotation(times: Sequence[StoppedTime]) -> dict[str, str]:
    texts = (f"{format_instant(time.since)}/{format_instant(time.until) if time.until else ''}" for time in times)
    return {labels.STOPPED_TIMES: ",".join([*texts][-MAX_TIMES:])}
