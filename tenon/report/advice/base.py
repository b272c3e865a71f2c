"""What rules get and what they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.money import sum_text
from tenon.report.live import LiveCluster, LiveNode, dollars_a_day
from tenon.report.obstacles import Judge, Obstacles
from tenon.sentences import counted


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence, what resolves it, and what it is computed of."""

    rule: str
    """The name of the rule, for scripts."""
    sentence: str
    action: str
    """What a person can do, as a sentence without a period."""
    nodes: Sequence[str] = ()
    pods: Sequence[str] = ()
    dollars_a_day: float | None = None
    """What the nodes cost; None if the advice is not about money."""
    figures: Mapping[str, float] = field(default_factory=dict)


class Question:
    """The cluster, and what keeps each of its nodes."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.judge = Judge(cluster)
        self.obstacles: Sequence[Obstacles] = self.judge.all()

    @property
    def settled(self) -> list[Obstacles]:
        """The nodes to which nothing happens now."""
        return [obstacles for obstacles in self.obstacles if not obstacles.is_moving]


def cost_text(nodes: Sequence[LiveNode]) -> str:
    """Return how many nodes there are and what they cost: '3 nodes ($41.20 a day)'."""
    count, cost = counted(len(nodes), "node"), dollars_a_day(nodes)
    return f"{count} ({sum_text(cost)} a day)" if cost else count


def use_text(nodes: Sequence[LiveNode]) -> str:
    """Return how much of the nodes is requested: '12% of CPU and 9% of memory'."""
    cpu, memory = use(nodes)
    return f"{cpu:.0%} of CPU and {memory:.0%} of memory"


def use(nodes: Iterable[LiveNode]) -> tuple[float, float]:
    """Return the requested shares of the CPU and of the memory of all nodes together."""
    rows = [live.row for live in nodes]
    cpu, memory = sum(row.cpu for row in rows), sum(row.memory for row in rows)
    return (
        sum(row.cpu_requests for row in rows) / cpu if cpu else 0.0,
        sum(row.memory_requests for row in rows) / memory if memory else 0.0,
    )


def use_figures(nodes: Sequence[LiveNode]) -> dict[str, float]:
    """Return the same as figures."""
    cpu, memory = use(nodes)
    return {"cpuShare": round(cpu, 4), "memoryShare": round(memory, 4)}
