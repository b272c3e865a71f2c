"""The launch breaker of a NodePool: after EC2 refuses a launch, only one launch at a time probes, at growing intervals.

A cause such as an IAM policy, an AMI or a quota affects every NodeClaim of the NodePool. Without a breaker, each of a
hundred claims would retry on its own and use up the EC2 calls that other NodePools need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tenon.lifecycle.launch_retry import pause
from tenon.lifecycle.messages.provisioning import LaunchBreaker, LaunchReport

UNTRIED_FOR = timedelta(minutes=2)
"""A breaker expires when its probe is overdue by this much: no claim tries to launch, so the next one may try."""


def refused(
    present: LaunchBreaker | None, pool: str, reason: str, message: str, now: datetime, *, outage: bool = False
) -> LaunchBreaker:
    """Return the breaker after EC2 refused a launch of the pool.

    A refusal that arrives before the next probe is due answers a launch that was sent before the breaker opened. It
    changes nothing.
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
    """True if no launch has probed the pool for so long that the breaker has expired."""
    return now - breaker.next_probe_at > UNTRIED_FOR


def merged(present: Mapping[str, LaunchBreaker], report: LaunchReport, now: datetime) -> dict[str, LaunchBreaker]:
    """Return the open breakers by pool, after a report from one io process."""
    reported = {breaker.pool: breaker for breaker in report.breakers}
    every = {**{pool: breaker for pool, breaker in present.items() if pool not in report.closed}, **reported}
    return {pool: breaker for pool, breaker in sorted(every.items()) if not untried(breaker, now)}


def sentence(breaker: LaunchBreaker) -> str:
    """Say why the pool launches nothing for now."""
    return f"its launches are held back because EC2 refuses them: {breaker.reason}: {breaker.message}"


def sentences(breakers: Iterable[LaunchBreaker]) -> dict[str, str]:
    """Map each pool to the reason why it launches nothing for now."""
    return {breaker.pool: sentence(breaker) for breaker in breakers}
