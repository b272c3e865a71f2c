"""The cases of the scheduling benchmark, with upstream's results and the goals.

Upstream is Karpenter v1.14.1 on two cores at its best setting, Solve alone. The random draws of its measurement are not
known: the bounds reported with its results differ from those of a fresh seed 42 by up to 3 %. Prices are therefore
compared by their ratio to the lower bound of the pods in question.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table. A figure of 0 was not measured, or is not a goal."""

    mix: str
    pods: int
    ignore_preferences: bool = False
    upstream_speed: float = 0
    """Pods per second."""
    upstream_ratio: float = 0
    """Price divided by the lower bound."""
    speed: float = 0
    """Goal: minimum pods per second."""
    ratio: float = 0
    """Goal: maximum price divided by the lower bound."""
    price: float = 0
    """Goal: maximum dollars per hour."""
    nodes: int = 0
    """Goal: maximum number of nodes."""
    megabytes: float = 0
    """Goal: peak memory below this value."""

    @property
    def name(self) -> str:
        """Name of the case in the table."""
        return (
            f"{self.mix}, {'Ignore' if self.ignore_preferences else 'Respect'}"
            if self.mix == "preference"
            else self.mix
        )


CASES = (
    Case("diverse", 500, upstream_speed=867, upstream_ratio=168 / 107, speed=4_000, ratio=168 / 107),
    Case("diverse", 1_000, upstream_speed=929, upstream_ratio=342 / 209, speed=5_000, ratio=342 / 209),
    Case("diverse", 5_000, upstream_speed=658, upstream_ratio=1_739 / 1_040, speed=6_000, ratio=0.9 * 1_739 / 1_040),
    Case("diverse", 10_000, upstream_speed=397, upstream_ratio=3_507 / 2_108, speed=6_000, ratio=0.9 * 3_507 / 2_108),
    Case("diverse", 20_000, speed=6_000, ratio=0.9 * 3_507 / 2_108, megabytes=1_000),
    Case("plain", 10_000, upstream_speed=2_286, upstream_ratio=2_964 / 2_088, speed=50_000, ratio=1.03),
    Case("preference", 4_000, upstream_speed=53, upstream_ratio=2_518 / 1_262, speed=2_000, ratio=2_518 / 1_262),
    Case("preference", 4_000, True, upstream_speed=2_211, upstream_ratio=1.0, speed=20_000, ratio=1.0005),
    Case("seed", 400, upstream_ratio=4.896 / 1.504, price=3.973, nodes=4),
    Case("seed", 100, upstream_ratio=4.896 / 1.88, price=3.978, nodes=3),
    Case("seed", 10, upstream_ratio=4.896 / 3.8653, price=4.284, nodes=2),
)


def chosen(mixes: list[str], pods: int | None) -> list[Case]:
    """Return the cases of these mixes, or of all mixes if empty.

    ``pods`` keeps only the cases of that size. If there are none, it creates one for each mix.
    """
    cases = [case for case in CASES if not mixes or case.mix in mixes]
    if pods is None:
        return cases
    sized = [case for case in cases if case.pods == pods]
    return sized or [Case(mix, pods) for mix in dict.fromkeys(case.mix for case in cases)]
