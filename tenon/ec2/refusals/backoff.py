"""How long an offering that EC2 refused is left alone: longer after each refusal in a row, less after each success.

An offering has two pauses. Plans that may buy something else avoid it for minutes, because each futile launch costs
their pods some seconds. Pods that nothing else fits wait for it, so for them a single NodeClaim probes the offering
after at most `MAX_PROBE_PAUSE`. So a storm of refusals costs few calls, and its end is noticed soon.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

FIRST_PAUSE = timedelta(minutes=3)
"""How long plans avoid an offering after EC2 had no capacity for it once (AWS-033)."""
MAX_PAUSE = timedelta(minutes=15)
FIRST_PROBE_PAUSE = timedelta(seconds=30)
MAX_PROBE_PAUSE = timedelta(seconds=90)
"""The longest time between two probes. It bounds how long pods wait once EC2 has capacity again."""
REMEMBERED_FOR = timedelta(minutes=15)
"""How long after the end of its pause an offering still counts as refused before."""


class Backoff(NamedTuple):
    """What EC2 refused of one offering, and until when plans avoid it."""

    until: datetime
    refused_at: datetime | None = None
    """When EC2 last refused it; None if EC2 did not refuse it, but takes its instances back."""
    refusals: int = 0
    """How often in a row EC2 refused it, without calls that were under way together. A success halves it."""

    def is_active(self, now: datetime) -> bool:
        """Whether plans avoid the offering now."""
        return now < self.until

    @property
    def probe_at(self) -> datetime:
        """When a single NodeClaim may ask for the offering, if nothing else fits its pods."""
        if self.refused_at is None or not self.refusals:
            return self.until
        return min(self.until, self.refused_at + probe_pause(self.refusals))


def pause(refusals: int) -> timedelta:
    """Return how long plans avoid an offering that EC2 refused so often in a row."""
    return min(FIRST_PAUSE * (1 << min(max(refusals - 1, 0), 10)), MAX_PAUSE)


def probe_pause(refusals: int) -> timedelta:
    """Return the time from such a refusal to the next probe."""
    return min(FIRST_PROBE_PAUSE * max(refusals, 1), MAX_PROBE_PAUSE)


def refused(before: Backoff | None, at: datetime) -> Backoff:
    """Return the back-off after a refusal.

    It grows only if the offering was due: other refusals answer calls that were under way before anything was known.
    """
    if before is None or before.refused_at is None:
        refusals = 1
    elif before.refusals and at < before.probe_at:
        refusals = before.refusals
    else:
        refusals = before.refusals + 1
    until = at + pause(refusals)
    return Backoff(until if before is None else max(until, before.until), at, refusals)


def merged(before: Backoff | None, reported: Backoff) -> Backoff:
    """Return the back-off after a report of a process, which counts only its own refusals and may repeat itself."""
    if before is None:
        return reported
    if reported.refused_at is None:
        return before._replace(until=max(before.until, reported.until))
    if before.refused_at is not None and reported.refused_at <= before.refused_at:
        return before
    return refused(before, reported.refused_at)


def launched(before: Backoff, at: datetime) -> Backoff:
    """Return the back-off after EC2 launched an instance of the offering: plans may use it, and it has half the count.

    The next refusal goes on from there, because capacity that came back may be gone after a few instances.
    """
    return before._replace(until=min(before.until, at), refusals=before.refusals // 2)


def in_whole_seconds(backoff: Backoff) -> Backoff:
    """Return the back-off with the next whole seconds as its instants.

    Earlier ones would let a probe ask for what the process that was refused does not send yet.
    """
    refused_at = _next_second(backoff.refused_at) if backoff.refused_at is not None else None
    return backoff._replace(until=_next_second(backoff.until), refused_at=refused_at)


def _next_second(instant: datetime) -> datetime:
    return (instant + timedelta(microseconds=999_999)).replace(microsecond=0)


def is_forgotten(backoff: Backoff, now: datetime) -> bool:
    """Whether the next refusal of the offering counts as its first."""
    return now >= backoff.until + REMEMBERED_FOR


def shows_capacity(backoff: Backoff, launched_at: datetime) -> bool:
    """Whether a launch of the offering shows that EC2 has capacity for it again.

    One answer of EC2 may launch some instances and refuse others, so a launch counts only if it was asked for later.
    """
    return backoff.refused_at is not None and launched_at >= backoff.refused_at + FIRST_PROBE_PAUSE
