"""Decides how long instances are terminated, and when none is left that can be ended.

EC2 shows new instances late, and a launch may be under way when the teardown begins. So the end has come only after
nothing was alive for some time. What EC2 refuses is asked a few times. If nothing changes for long, the rest is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tenon.messages.teardown import ClusterInstance, Leftover, TerminateRoundResult

SETTLE = timedelta(seconds=60)
"""How long nothing must be alive before all instances count as ended."""
STUCK = timedelta(minutes=15)
"""How long nothing may change before what is left is given up."""
MAX_REFUSALS = 3
"""How often an instance is asked that EC2 refuses to terminate, such as one with termination protection."""
MAX_ROUNDS = 400
"""The most rounds, if something buys again and again."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(seconds=30)
INSTANCE = "instance"
BOUGHT_AGAIN = "it was bought while the cluster ended: stop all workers of the cluster, and run the teardown again"


@dataclass(frozen=True, slots=True)
class TerminationRefusal:
    """How often EC2 has refused to terminate an instance, and why."""

    times: int
    why: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the rounds have seen up to now."""

    number: int = 0
    instances: Mapping[str, ClusterInstance] = field(default_factory=dict)
    """All instances that were alive in a round, by ID."""
    ended: Mapping[str, datetime] = field(default_factory=dict)
    """When each of them was no longer alive first."""
    refused: Mapping[str, TerminationRefusal] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    """The instances that were alive in the last round, as far as it named them."""
    unlisted: int = 0
    """How many more were alive in it. A round names at most `MAX_LISTED`."""
    leaving: int = 0
    quiet_since: datetime | None = None
    """Since when nothing is alive or shuts down."""
    changed_at: datetime | None = None
    """When a round last found something else than the round before."""

    @property
    def given_up(self) -> list[str]:
        """The instances that are not asked again, because EC2 refused them too often."""
        return sorted(name for name, refusal in self.refused.items() if refusal.times >= MAX_REFUSALS)


def after(rounds: Rounds, result: TerminateRoundResult, now: datetime) -> Rounds:
    """Return what is known after one more round."""
    alive = {instance.id: instance for instance in result.alive}
    given_up = set(rounds.given_up)
    gone_ids = (rounds.alive - alive.keys()) - given_up
    ended = {name: at for name, at in rounds.ended.items() if name not in alive}
    ended.update(dict.fromkeys(sorted(gone_ids), now))
    refused = {name: refusal for name, refusal in rounds.refused.items() if name in alive or name in given_up}
    for name, why in sorted(result.refusals.items()):
        refused[name] = TerminationRefusal(refused[name].times + 1 if name in refused else 1, why)
    is_quiet = not alive and not result.leaving_count
    is_changed = frozenset(alive) != rounds.alive or result.leaving_count != rounds.leaving or rounds.changed_at is None
    return Rounds(
        number=rounds.number + 1,
        instances={**rounds.instances, **alive},
        ended=ended,
        refused=refused,
        alive=frozenset(alive),
        unlisted=max(0, result.alive_count - len(alive)),
        leaving=result.leaving_count,
        quiet_since=(rounds.quiet_since or now) if is_quiet else None,
        changed_at=now if is_changed else rounds.changed_at,
    )


def pause_before_next(rounds: Rounds, now: datetime) -> timedelta | None:
    """Return how long to wait before the next round; None if there is none."""
    if rounds.number >= MAX_ROUNDS:
        return None
    if rounds.quiet_since is not None:
        remaining_time = rounds.quiet_since + SETTLE - now
        return remaining_time if remaining_time > timedelta() else None
    if rounds.changed_at is not None and now - rounds.changed_at >= STUCK:
        return None
    return min(FIRST_PAUSE * max(1, rounds.number), LONGEST_PAUSE)


def left_instances(rounds: Rounds) -> list[Leftover]:
    """Return the instances that the rounds could not end, and why."""
    names = sorted(left_ids(rounds))
    leftovers = [Leftover(kind=INSTANCE, name=name, why=_why(rounds, name)) for name in names]
    if rounds.leaving:
        why = f"{rounds.leaving} did not end within {STUCK.total_seconds() / 60:.0f} minutes after EC2 accepted it"
        leftovers.append(Leftover(kind=INSTANCE, name="shutting-down", why=why))
    return leftovers


def left_ids(rounds: Rounds) -> frozenset[str]:
    """Return the instances that are alive, or that EC2 refused too often, by ID."""
    return rounds.alive.union(rounds.given_up)


def ended_instances(rounds: Rounds) -> dict[str, datetime]:
    """Return the instances that ended, and when EC2 accepted that."""
    given_up = set(rounds.given_up)
    return {name: at for name, at in rounds.ended.items() if name not in given_up}


def _why(rounds: Rounds, name: str) -> str:
    refusal = rounds.refused.get(name)
    if refusal is not None:
        return refusal.why
    if rounds.number >= MAX_ROUNDS:
        return BOUGHT_AGAIN
    return f"EC2 did not end it within {STUCK.total_seconds() / 60:.0f} minutes"


def begin_rounds(instances: Sequence[ClusterInstance]) -> Rounds:
    """Return the rounds before the first one. What a survey saw alive, and what the first one lacks, has ended."""
    return Rounds(instances={item.id: item for item in instances}, alive=frozenset(item.id for item in instances))
