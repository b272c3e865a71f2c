"""A scenario of disruption: a cluster, and the commands that consolidation must choose, with their explanations.

A file in `disruption/` is one YAML document. To add one, copy the file that is most alike and name it after its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from tenon.disruption.deciding import decide
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.methods.consolidation_price import LEAST_SAVING
from tenon.disruption.model import Command, Decision
from tenon.scheduling.model import PlannedClaim
from tests.disruption.clusters import NOW, Cluster, Spec, duration, findings, situation

FOLDER = Path(__file__).parent / "disruption"


class ExpectedNode(Spec):
    """A new node; only what is given is looked at."""

    pool: str | None = None
    type: str | None = None
    types: list[str] | None = None
    """All types that it lists, cheapest first."""
    type_count: int | None = None
    types_exclude: tuple[str, ...] = ()
    capacity_type: str | None = None
    requires_capacity_type: list[str] | None = None
    price: float | None = None
    pods: int | None = None


class ExpectedCommand(Spec):
    """A command; only what is given is looked at, apart from the nodes that it removes."""

    removes: list[str]
    launches: list[ExpectedNode] | None = None
    onto: dict[str, int] | None = None
    """How many pods move to each existing node."""
    saving: float | None = None
    """Dollars an hour, at least."""
    type: Literal["single", "multi"] | None = None
    explanation: list[str] = Field(min_length=1)
    """Fragments."""


class Scenario(Spec):
    """A whole file."""

    scenario: str
    rows: list[str] = Field(min_length=1)
    cluster: Cluster
    spot_to_spot: bool = False
    least_saving: float = LEAST_SAVING
    expect: list[ExpectedCommand]
    eligible: int | None = None
    look_again: str | None = None
    """In how much time; nothing is said about it if it is left out."""

    @model_validator(mode="after")
    def _names_nodes_that_exist(self) -> Scenario:
        unknown = {name for command in self.expect for name in command.removes} - self.cluster.nodes.keys()
        if unknown:
            raise ValueError(f"expect names nodes that the cluster does not have: {sorted(unknown)}")
        return self


def read(path: Path) -> Scenario:
    """Read a file."""
    stated: Any = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return Scenario.model_validate(stated)


def failure(scenario: Scenario) -> str:
    """What is wrong with the decision, with all of it for a person to read; empty if the scenario holds."""
    method = Consolidation(spot_to_spot=scenario.spot_to_spot, least_saving=scenario.least_saving)
    decision = decide(situation(scenario.cluster), [method])
    found = [*map(repr, decision.failed.values()), *_wrong(scenario, decision)]
    found += [f"{each}" for each in findings(scenario.cluster, decision.commands)]
    if not found:
        return ""
    return "\n".join([", ".join(scenario.rows), scenario.scenario, *found, "--- commands", *_told(decision)])


def _wrong(scenario: Scenario, decision: Decision) -> Iterator[str]:
    chosen = {tuple(sorted(_removed(command))): command for command in decision.commands}
    wanted = {tuple(sorted(command.removes)): command for command in scenario.expect}
    if chosen.keys() != wanted.keys():
        yield f"expected commands for {sorted(wanted)}, got {sorted(chosen)}"
        return
    for removed, command in wanted.items():
        for difference in _differences(command, chosen[removed]):
            yield f"{', '.join(removed)}: {difference}"
    eligible = sum(decision.eligible.values())
    if scenario.eligible is not None and eligible != scenario.eligible:
        yield f"expected {scenario.eligible} eligible nodes, got {eligible}"
    if scenario.look_again is not None:
        due = NOW + duration(scenario.look_again) if scenario.look_again else None
        if decision.look_again != due:
            yield f"expected to look again at {due}, got {decision.look_again}"


def _differences(wanted: ExpectedCommand, got: Command) -> Iterator[str]:
    if wanted.launches is not None:
        if len(wanted.launches) != len(got.replacements):
            yield f"expected {len(wanted.launches)} new nodes, got {len(got.replacements)}"
        for node, claim in zip(wanted.launches, got.replacements, strict=False):
            yield from _node_differences(node, claim)
    onto = {node: len(pods) for node, pods in got.destinations.items()}
    if wanted.onto is not None and wanted.onto != onto:
        yield f"expected pods onto {wanted.onto}, got {onto}"
    if wanted.saving is not None and abs(wanted.saving - got.saving) > 1e-6:
        yield f"expected a saving of {wanted.saving}, got {got.saving}"
    if wanted.type is not None and wanted.type != got.consolidation_type:
        yield f"expected the consolidation type {wanted.type}, got {got.consolidation_type}"
    told = "\n".join(got.explanation)
    yield from (f"the explanation does not say {fragment!r}" for fragment in wanted.explanation if fragment not in told)


def _node_differences(wanted: ExpectedNode, got: PlannedClaim) -> Iterator[str]:
    allowed = got.requirements.get("karpenter.sh/capacity-type")
    seen: dict[str, object] = {
        "pool": got.pool,
        "type": got.offering.instance_type,
        "types": list(got.instance_types),
        "type_count": len(got.instance_types),
        "capacity_type": got.offering.capacity_type,
        "requires_capacity_type": list(allowed.values),
        "pods": len(got.pods),
    }
    for name, value in seen.items():
        expected = getattr(wanted, name)
        if expected is not None and expected != value:
            yield f"expected a new node with {name} {expected}, got {value}"
    if wanted.price is not None and abs(wanted.price - got.price) > 1e-6:
        yield f"expected a new node for ${wanted.price}, got ${got.price}"
    yield from (f"a new node lists {name}" for name in wanted.types_exclude if name in got.instance_types)


def _removed(command: Command) -> list[str]:
    return [candidate.node.claim for candidate in command.candidates]


def _told(decision: Decision) -> list[str]:
    return [
        f"- {line}" if number == 0 else f"  {line}"
        for command in decision.commands
        for number, line in enumerate(
            (*command.explanation, *(f"lists {c.instance_types}" for c in command.replacements))
        )
    ]


def looks_again_in(decision: Decision) -> timedelta | None:
    """In how much time the decision asks to look again."""
    return decision.look_again - NOW if decision.look_again else None
