"""The launch breaker: after EC2 refuses a launch, only one such launch at a time probes, at growing intervals.

A cause such as an IAM policy, an AMI or an instance profile affects every NodeClaim that requests the same. Without a
breaker, each of a hundred claims would retry on its own and use up the EC2 calls that other NodePools need.

A breaker has the size of what EC2 refused. What comes from the EC2NodeClass, such as an AMI or an instance profile,
concerns all NodePools of this class and no others. Most other causes concern one NodePool, and a few the account.

The breaker holds back only the instance types of the refused requests. A class may have an AMI for each architecture,
or one whose snapshot is larger than a volume. So a refusal of some types says nothing about others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.messages.provisioning import LaunchBreaker, LaunchReport
from tenon.node.launch_retry import pause
from tenon.sentences import first_few

UNTRIED_FOR = timedelta(minutes=2)
"""A breaker expires when its probe is overdue by this much: no claim tries to launch, so the next one may try."""
BOOTS_BEFORE = 2
"""How many instances in a row end while they boot until such launches are held back."""
BOOTS_REMEMBERED_FOR = timedelta(minutes=10)
"""How long fewer of them are remembered."""
MAX_ENDED = 8
"""How many of these instances a breaker names. The pause does not grow any more after fewer."""
FIRST_BOOT_PAUSE, MAX_BOOT_PAUSE = timedelta(seconds=30), timedelta(minutes=5)
"""How long until the next purchase after that. The pause doubles."""
NAMED_TYPES = 3
"""How many held instance types a sentence names."""
ACCOUNT = "*"
"""The key of the breaker for all launches. No NodePool can have this name."""


def key_of(pool: str, node_class: str = "") -> str:
    """Return the key of the breaker for an EC2NodeClass, else for a NodePool, else for the account."""
    return f"EC2NodeClass/{node_class}" if node_class else pool or ACCOUNT


def keys_of(pool: str, node_class: str) -> list[str]:
    """Return the keys of all breakers that may hold back a launch of this NodePool with this EC2NodeClass."""
    return [key_of(pool), *([key_of("", node_class)] if node_class else []), ACCOUNT]


def subject(breaker: LaunchBreaker) -> str:
    """Name what EC2 refuses, for a sentence."""
    if breaker.node_class:
        name, _, version = breaker.node_class.partition("@")
        return f"EC2NodeClass {name}" + (f" in version {version}" if version else "")
    return f"NodePool {breaker.pool}" if breaker.pool else "this account"


def refused(
    present: LaunchBreaker | None,
    pool: str,
    reason: str,
    message: str,
    now: datetime,
    *,
    outage: bool = False,
    instance_types: Collection[str] = (),
    node_class: str = "",
) -> LaunchBreaker:
    """Return the breaker after EC2 refused a launch of the pool with these instance types, or with any if empty.

    If ``node_class`` is given, the refusal is about this EC2NodeClass, and so about all its NodePools.

    A refusal that arrives before the next probe is due answers a launch that was sent before the breaker opened, or a
    launch of other types. It does not postpone the probe.
    """
    types = sorted(instance_types)
    if present is not None and types and present.instance_types:
        types = sorted({*types, *present.instance_types})
    elif present is not None:
        types = []
    if present is not None and now < present.next_probe_at:
        if types == present.instance_types:
            return present
        wider = evolve(present, instance_types=types)
        return wider if types else evolve(wider, reason=reason, message=message, refused_at=now)
    failures = present.failures + 1 if present else 1
    return LaunchBreaker(
        pool="" if node_class else pool,
        node_class=node_class,
        reason=reason,
        message=message,
        failures=failures,
        opened_at=present.opened_at if present else now,
        refused_at=now,
        next_probe_at=now + pause(failures),
        outage=outage,
        instance_types=types,
    )


def boot_pause(ended: int) -> timedelta:
    """Return how long to buy nothing after so many instances in a row ended while they booted."""
    if ended < BOOTS_BEFORE:
        return timedelta(0)
    return min(FIRST_BOOT_PAUSE * (1 << min(max(ended - BOOTS_BEFORE, 0), 8)), MAX_BOOT_PAUSE)


def ended_booting(
    present: LaunchBreaker | None,
    reason: str,
    message: str,
    instance: str,
    now: datetime,
    *,
    node_class: str = "",
    kinds: Iterable[str] = (),
) -> LaunchBreaker:
    """Return the breaker after EC2 ended an instance of the EC2NodeClass, or of the account, before its Node joined.

    An instance that was counted before changes nothing, nor does one while EC2 refuses such launches anyway. ``kinds``:
    its image and its instance type, or its zone.
    """
    if present is not None and not present.boots and not untried(present, now):
        return present
    before = present.ended if present is not None and present.boots else []
    if present is not None and instance in before:
        return present
    ended = [*before, instance][-MAX_ENDED:]
    return LaunchBreaker(
        node_class=node_class,
        reason=reason,
        message=message,
        failures=len(ended),
        opened_at=present.opened_at if present is not None and before else now,
        refused_at=now,
        next_probe_at=now + boot_pause(len(ended)),
        boots=True,
        ended=ended,
        kinds=sorted({*kinds, *(present.kinds if present is not None and before else ())}),
    )


def ends_count(breaker: LaunchBreaker, kinds: Collection[str], launched_at: datetime | None) -> bool:
    """True if a Node that joined shows that instances boot again. ``kinds``: its image, instance type and zone.

    It was launched after the pause that followed the last end. An EC2NodeClass has images for several architectures, so
    a Node with another image says nothing, unless its type is one that ended: then the image has been corrected. The
    account may have room for one volume and not for the next, so a Node ends its pause, but not its count.
    """
    pause = boot_pause(breaker.failures)
    over = ((breaker.refused_at or breaker.opened_at) + pause).replace(microsecond=0)  # as in the API server
    if launched_at is None or launched_at < over:
        return False
    if not breaker.node_class:
        return is_open(breaker)
    return not breaker.kinds or not set(kinds).isdisjoint(breaker.kinds)


def added_up(first: LaunchBreaker, other: LaunchBreaker, now: datetime) -> LaunchBreaker:
    """Return the breaker for the ended instances that two processes saw, in part the same ones."""
    ended = [*first.ended, *(instance for instance in other.ended if instance not in first.ended)][-MAX_ENDED:]
    newest = max(first, other, key=lambda breaker: breaker.refused_at or breaker.opened_at)
    probes = [first.next_probe_at, other.next_probe_at]
    if len(ended) > max(len(first.ended), len(other.ended)):
        probes.append(now + boot_pause(len(ended)))
    failures = max(len(ended), first.failures, other.failures)
    opened_at = min(first.opened_at, other.opened_at)
    kinds = sorted({*first.kinds, *other.kinds})
    return evolve(newest, ended=ended, kinds=kinds, failures=failures, opened_at=opened_at, next_probe_at=max(probes))


def is_open(breaker: LaunchBreaker) -> bool:
    """True if launches wait; false if it only counts the first instances that ended."""
    return not breaker.boots or breaker.failures >= BOOTS_BEFORE


def holds_back(breaker: LaunchBreaker, instance_types: Collection[str]) -> bool:
    """True if a launch that may be of these types must wait. An empty list means that the types are not known."""
    held_types = breaker.instance_types
    return is_open(breaker) and (not held_types or not instance_types or not set(instance_types).isdisjoint(held_types))


def untried(breaker: LaunchBreaker, now: datetime) -> bool:
    """True if no launch has probed for so long that the breaker has expired."""
    return now - breaker.next_probe_at > (UNTRIED_FOR if is_open(breaker) else BOOTS_REMEMBERED_FOR)


def merged(present: Mapping[str, LaunchBreaker], report: LaunchReport, now: datetime) -> dict[str, LaunchBreaker]:
    """Return the breakers by key, after a report from one io process."""
    every = {key: breaker for key, breaker in present.items() if key not in report.closed}
    for key, breaker in by_key(report.breakers).items():
        before = every.get(key)
        if not breaker.boots or before is None:
            every[key] = breaker
        elif before.boots:
            every[key] = added_up(before, breaker, now)
        elif untried(before, now):
            every[key] = breaker
    return {key: breaker for key, breaker in sorted(every.items()) if not untried(breaker, now)}


def by_key(breakers: Iterable[LaunchBreaker]) -> dict[str, LaunchBreaker]:
    """Return each breaker by the key of what it holds back."""
    return {key_of(breaker.pool, breaker.node_class): breaker for breaker in breakers}


def sentence(breaker: LaunchBreaker) -> str:
    """Say what launches are held back, of a NodePool or an EC2NodeClass that the context names, and why."""
    names = breaker.instance_types
    types = f" of {first_few(names, NAMED_TYPES)}" if names else ""
    if breaker.boots:
        why = f"instances of {subject(breaker)} end while they boot"
    elif breaker.node_class:
        why = f"EC2 refuses what {subject(breaker)} asks for"
    else:
        why = "EC2 refuses them"
    return f"its launches{types} are held back because {why}: {breaker.reason}: {breaker.message}"
