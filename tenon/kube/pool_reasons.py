"""Why a pod has no place, as data: what keeps it off each NodePool. Sentences are made of it last.

So what sorts, groups, shortens or completes reasons reads fields, and a sentence may change without changing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tenon.kube.timestamps import next_attempt
from tenon.sentences import counted, shortened

SHORTEST_CLAUSE = 60
"""Characters that a clause keeps at least. If there is not so much room for each, the last ones are counted."""
SHORTEST_TEXT = 30
"""Characters that its text keeps at least in addition to the time of the next attempt."""
_BETWEEN = "; "
_AND = ", and "
"""Joins obstacles that must all go."""


class ObstacleKind(StrEnum):
    """What keeps a pod from a node."""

    CAPACITY = "capacity"
    """EC2 refuses what the pod could use, or the account's quota of vCPUs is used up."""
    LIMITS = "limits"
    """The limits of the NodePool, or those on costs, leave no room."""
    SCHEDULE = "schedule"
    """A NodeSchedule has turned the NodePool off."""
    LAUNCHES = "launches"
    """The NodePool launches nothing more now, because of how its last launches or writes ended."""
    RESERVATIONS = "reservations"
    """The capacity reservations that the pod may use are full."""
    TAINTS = "taints"
    """The pod does not tolerate taints of the NodePool."""
    REQUIREMENTS = "requirements"
    """No node meets the requirements of the pod and of the NodePool."""
    REQUESTS = "requests"
    """The pod requests more of a resource than any type has that the pod may use."""
    ROOM = "room"
    """No type has all that the pod and the DaemonSets request together."""
    MIN_VALUES = "min-values"
    """The types that hold the pod do not offer the ``minValues`` of the NodePool."""
    PODS = "pods"
    """A rule between pods: topology spread, pod affinity or anti-affinity."""
    NODEPOOL = "nodepool"
    """The NodePool launches no nodes for pods until somebody changes it, its EC2NodeClass or its NodeRollout."""
    POD = "pod"
    """What no NodePool can change, such as a volume, or a rule that contradicts itself."""


_WAITING = frozenset({ObstacleKind.CAPACITY, ObstacleKind.LIMITS, ObstacleKind.SCHEDULE})


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that must change before a pod gets a node."""

    kind: ObstacleKind
    """What it is about, such as ``capacity`` or ``taints``."""
    text: str
    """A clause. Its subject is the NodePool or the pod."""
    next_attempt: datetime | None = None
    """When Tenon asks EC2 again; None if nothing was refused."""
    remedy: str = ""
    """What a person can do about it, if the text does not say so."""

    def __str__(self) -> str:
        """Return the whole clause."""
        at = f": {next_attempt(self.next_attempt)}" if self.next_attempt is not None else ""
        return f"{self.text}{at}{_BETWEEN if self.remedy else ''}{self.remedy}"


@dataclass(frozen=True, slots=True)
class Clause:
    """Why a pod gets no node of one NodePool, or of any."""

    pool: str
    """The NodePool; empty if it is not about one."""
    obstacles: tuple[Obstacle, ...]
    """All of them must go."""
    refused: tuple[Obstacle, ...] = ()
    """What EC2 refuses, or no image boots, that the pod could use. The obstacles are then about what is left."""

    @property
    def waits(self) -> bool:
        """Whether the NodePool would take the pod later: when EC2 has capacity, within its limits or by schedule."""
        return all(obstacle.kind in _WAITING for obstacle in self.refused or self.obstacles)

    @property
    def kind(self) -> ObstacleKind:
        """What a remedy is about: what the NodePool waits for, or else the first obstacle that someone must change."""
        obstacles = self.refused or self.obstacles
        return next(
            (obstacle.kind for obstacle in obstacles if self.waits or obstacle.kind not in _WAITING), ObstacleKind.POD
        )

    @property
    def why(self) -> str:
        """The clause without the name of the NodePool."""
        refused, obstacles = text_of(self.refused), text_of(self.obstacles)
        return f"{refused}; without these: {obstacles}" if refused else obstacles

    @property
    def without_times(self) -> Clause:
        """The clause without the times of next attempts."""
        return replace(self, obstacles=_without_times(self.obstacles), refused=_without_times(self.refused))

    def __str__(self) -> str:
        """Return the whole clause."""
        return f"{self._title}{self.why}"

    def shortened(self, most: int) -> Clause:
        """Return the clause with at most so many characters. It keeps when Tenon asks EC2 again, and loses its end."""
        if len(str(self)) <= most:
            return self
        obstacles = (*self.refused, *self.obstacles)
        at = min((obstacle.next_attempt for obstacle in obstacles if obstacle.next_attempt is not None), default=None)
        last = Obstacle(obstacles[0].kind, "", at)
        room = most - len(self._title) - len(str(last))
        if room < SHORTEST_TEXT:
            last, room = replace(last, next_attempt=None), most - len(self._title)
        return Clause(self.pool, (replace(last, text=shortened(self.without_times.why, max(1, room))),))

    @property
    def _title(self) -> str:
        return f"NodePool {self.pool}: " if self.pool else ""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Why a pod has no place: a clause for each NodePool that it accepts, or one for all."""

    clauses: tuple[Clause, ...]
    """One for each NodePool, or one that is about all of them."""
    left_out: int = 0
    """How many more NodePools have a clause that there was no room for."""
    is_shortened: bool = False
    """Whether clauses lack their ends, or some are left out."""

    @classmethod
    def of(cls, text: str, kind: ObstacleKind = ObstacleKind.POD) -> NoPlace:
        """Return a reason that is about no NodePool."""
        return cls.in_pool("", Obstacle(kind, text))

    @classmethod
    def in_pool(cls, pool: str, *obstacles: Obstacle) -> NoPlace:
        """Return a reason that is about one NodePool."""
        return cls((Clause(pool, obstacles),))

    @property
    def sentences(self) -> list[str]:
        """One for each clause."""
        more = [f"and {counted(self.left_out, 'more NodePool')}"] if self.left_out else []
        return [*map(str, self.clauses), *more]

    @property
    def without_times(self) -> NoPlace:
        """The reason without the times of next attempts, which may be over when it is read."""
        return replace(self, clauses=tuple(clause.without_times for clause in self.clauses))

    def __str__(self) -> str:
        """Return the sentence that people read, without a period."""
        return _BETWEEN.join(self.sentences)

    def clause_of(self, pool: str) -> Clause | None:
        """Return what it says about a NodePool; None for nothing."""
        return next((clause for clause in self.clauses if clause.pool == pool), None)

    def with_clause(self, changed: Clause) -> NoPlace:
        """Return the reason with another clause about a NodePool."""
        clauses = tuple(changed if clause.pool == changed.pool else clause for clause in self.clauses)
        return replace(self, clauses=clauses)

    def with_clauses(self, more: Iterable[Clause]) -> NoPlace:
        """Return the reason with more clauses. NodePools that only wait come first: what is read first should count."""
        clauses = sorted((*self.clauses, *more), key=lambda clause: not (clause.pool and clause.waits))
        return replace(self, clauses=tuple(clauses))

    def shortened(self, most: int) -> NoPlace:
        """Return the reason with at most so many characters: its longest clauses give up their ends.

        It counts the NodePools that it leaves out if there are too many. It is longer only if a NodePool's name is.
        """
        if len(str(self)) <= most:
            return self
        clause_count, left_out = len(self.clauses), self.left_out
        fitting = (most + len(_BETWEEN)) // (SHORTEST_CLAUSE + len(_BETWEEN))
        if clause_count > 1 and fitting < clause_count + bool(left_out):
            clause_count = max(1, min(clause_count, fitting - 1))
            left_out += len(self.clauses) - clause_count
        counted_part = replace(self, clauses=(), left_out=left_out)
        room = most - len(str(counted_part)) - len(_BETWEEN) * (clause_count - 1 + bool(left_out))
        return NoPlace(tuple(_evenly(self.clauses[:clause_count], room)), left_out, is_shortened=True)


def text_of(obstacles: Iterable[Obstacle]) -> str:
    """Return the clause about obstacles that must all go; empty for none."""
    return _AND.join(map(str, obstacles))


def _without_times(obstacles: tuple[Obstacle, ...]) -> tuple[Obstacle, ...]:
    return tuple(replace(obstacle, next_attempt=None) for obstacle in obstacles)


def _evenly(clauses: Sequence[Clause], room: int) -> list[Clause]:
    """Shorten the longest clauses to the same length, so that all together have at most so many characters."""
    lengths = [len(str(clause)) for clause in clauses]
    shares: dict[int, int] = {}
    for number, place in enumerate(sorted(range(len(clauses)), key=lengths.__getitem__)):
        shares[place] = min(lengths[place], room // (len(clauses) - number))
        room -= shares[place]
    return [clause.shortened(shares[place]) for place, clause in enumerate(clauses)]
