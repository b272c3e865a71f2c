"""The cases of the scheduling benchmark, with what upstream reached and what is aimed for.

Upstream is Karpenter v1.14.1 on two cores at its best setting, its Solve alone. Which draws it was measured with is not
known: the bounds reported with its figures differ from those of a fresh seed 42 by up to 3 %. So prices are compared by
their ratio to the lower bound of the pods in question.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table; figures that are 0 were not measured, or are no goal."""

    mix: str
    pods: int
    ignore_preferences: bool = False
    upstream_speed: float = 0
    """Pods a second."""
    upstream_ratio: float = 0
    """Price over bound."""
    speed: float = 0
    """The goal: at least so many pods a second."""
    ratio: float = 0
    """The goal: price over bound at most."""
    price: float = 0
    """The goal: dollars an hour at most."""
    nodes: int = 0
    """The goal: nodes at most."""
    megabytes: float = 0
    """The goal: peak memory below."""

    @property
    def name(self) -> str:
        """How the table calls it."""
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
    """The cases of some mixes, all without any; ``pods`` leaves those of that size, or makes one for each mix."""
    some = [case for case in CASES if not mixes or case.mix in mixes]
    if pods is None:
        return some
    sized = [case for case in some if case.pods == pods]
    return sized or [Case(mix, pods) for mix in dict.fromkeys(case.mix for case in some)]
