"""The launch breaker of a NodePool: a refusal holds its launches back, and one of them probes at growing intervals.

What EC2 refuses to one claim of a NodePool it will refuse to the next one too: an IAM policy, an AMI, a quota. Without
a breaker each of a hundred claims would find that out for itself, again and again, and use up the EC2 calls that other
NodePools need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tenon.lifecycle.launch_retry import pause
from tenon.lifecycle.messages import LaunchBreaker, LaunchReport

UNTRIED_FOR = timedelta(minutes=2)
"""A breaker whose probe is so long overdue is over: no claim wants to launch, and the next one may try."""


def refused(
    present: LaunchBreaker | None, pool: str, reason: str, message: str, now: datetime, *, outage: bool = False
) -> LaunchBreaker:
    """The breaker after a launch of the pool was refused.

    A refusal before the next probe is due answers a launch that was sent before the breaker opened: it changes nothing.
    """
    if present is not None and now < present.next_probe_at:
        return present
    failures = present.failures + 1 if present else 1
    return LaunchBreaker(
        pool=pool,
        reason=reason,
        message=message,
        failures=failures,
        opened_at=present.opened_at if present else now,
        next_probe_at=now + pause(failures),
        outage=outage,
    )


def untried(breaker: LaunchBreaker, now: datetime) -> bool:
    """Whether nothing has tried the pool for so long that the breaker says nothing any more."""
    return now - breaker.next_probe_at > UNTRIED_FOR


def merged(present: Mapping[str, LaunchBreaker], report: LaunchReport, now: datetime) -> dict[str, LaunchBreaker]:
    """The breakers that hold, by pool, after a report of one io process."""
    told = {breaker.pool: breaker for breaker in report.breakers}
    every = {**{pool: breaker for pool, breaker in present.items() if pool not in report.closed}, **told}
    return {pool: breaker for pool, breaker in sorted(every.items()) if not untried(breaker, now)}


def sentence(breaker: LaunchBreaker) -> str:
    """Why the pool launches nothing for now."""
    return f"its launches are held back because EC2 refuses them: {breaker.reason}: {breaker.message}"


def sentences(breakers: Iterable[LaunchBreaker]) -> dict[str, str]:
    """By pool: why it launches nothing for now."""
    return {breaker.pool: sentence(breaker) for breaker in breakers}
