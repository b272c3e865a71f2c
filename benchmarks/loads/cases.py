"""The loads: each is drawn from its name, so that the same name always gives the same manifests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.families import problem_for
from benchmarks.random_cases import load_case
from benchmarks.random_families import case
from cli.simulating import builtin
from cli.simulating.files import read_catalogue_file
from tenon.scheduling.model import InstanceType, Problem

Object = dict[str, Any]

KINDS = {"mixed": 40, "limits": 10, "spread": 5, "affinity": 5}
"""How many loads there are of each kind: 400 pods of many kinds, and 30 to 400 pods that state one kind of rule."""
BEST_PLANS = Path(__file__).parent / "best_plans.json"


@dataclass(frozen=True, slots=True)
class Load:
    """A load by its kind and number."""

    kind: str
    number: int

    @property
    def name(self) -> str:
        """The name in tables and in the file of best plans."""
        return f"{self.kind}-{self.number:02}"

    def manifests(self) -> list[Object]:
        """The NodePools, DaemonSets and Deployments."""
        return load_case(self.number).manifests if self.kind == "mixed" else case(self.kind, self.number)

    def problem(self, types: Sequence[InstanceType]) -> Problem:
        """What the engine has to solve."""
        return problem_for(self.manifests(), types)


def loads(kinds: Sequence[str] = ()) -> Iterator[Load]:
    """Yield the loads of these kinds, or all."""
    for kind, count in KINDS.items():
        if not kinds or kind in kinds:
            yield from (Load(kind, number) for number in range(count))


@cache
def instance_types() -> Sequence[InstanceType]:
    """The built-in catalogue of EC2."""
    types, faults = read_catalogue_file(None)
    assert not faults
    return types


def catalogue_digest() -> str:
    """Identifies the catalogue: the bounds and best plans hold for it alone."""
    return hashlib.sha256(builtin.PACKED.read_bytes()).hexdigest()


DIVISIBLE = "divisible nodes"
"""How the bound of `tenon.scheduling.bound.lower_bound` is found."""


@dataclass(frozen=True, slots=True)
class BestPlan:
    """The best plan that is known for a load. Cost and bound are by the rules that nodes are sized by."""

    pods: int
    placed: int
    nodes: int
    price: float
    cost: float
    bound: float
    method: str
    """How it was found."""
    bound_method: str = DIVISIBLE
    """How the bound was found."""
    purchases: str = ""
    """The digest of the pods, rules and prices that a bound over whole nodes holds for; empty for other bounds."""

    def is_better_than(self, other: BestPlan) -> bool:
        """Whether it places more pods, or as many for less."""
        return (-self.placed, round(self.cost, 6)) < (-other.placed, round(other.cost, 6))


def read_best_plans() -> dict[str, BestPlan]:
    """Return the best plans by the name of the load.

    Raises:
        ValueError: they were found with another catalogue.
    """
    document = json.loads(BEST_PLANS.read_text())
    if document["catalogue"] != catalogue_digest():
        raise ValueError(
            f"{BEST_PLANS} is for another catalogue of instance types: run python -m benchmarks.loads --search"
        )
    return {name: BestPlan(**entry) for name, entry in document["loads"].items()}


def write_best_plans(plans: dict[str, BestPlan]) -> None:
    """Write the file, one load a line."""
    entries = [
        f"  {json.dumps(name)}: {json.dumps({key: getattr(plans[name], key) for key in BestPlan.__slots__})}"
        for name in sorted(plans)
    ]
    text = ",\n".join(entries)
    BEST_PLANS.write_text(f'{{"catalogue": {json.dumps(catalogue_digest())}, "loads": {{\n{text}\n}}}}\n')
