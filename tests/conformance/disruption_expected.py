"""The command and the new nodes that a scenario of disruption expects, and how a command differs from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from tenon.apis.reasons import Reason
from tenon.disruption.model import Command
from tenon.scheduling.model import PlannedClaim
from tests.tenon.disruption.clusters import Spec, duration


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
    zone: str | None = None
    price: float | None = None
    pods: int | None = None


class ExpectedCommand(Spec):
    """A command; only what is given is looked at, apart from the nodes that it removes."""

    removes: list[str]
    reason: Reason = Reason.UNDERUTILIZED
    launches: list[ExpectedNode] | None = None
    onto: dict[str, int] | None = None
    """How many pods move to each existing node."""
    saving: float | None = None
    """Dollars an hour, at least."""
    type: Literal["single", "multi"] | None = None
    graceful: bool | None = None
    decision: Literal["delete", "replace", "reboot"] | None = None
    drain_bound: str | None = None
    """The most time that the drain may take by the repair policies; empty if they set none."""
    explanation: list[str] = Field(default_factory=list)
    """Fragments. A command for empty or expired nodes says nothing."""

    @model_validator(mode="after")
    def _is_explained(self) -> ExpectedCommand:
        if not self.explanation and self.reason not in (Reason.EMPTY, Reason.EXPIRED):
            raise ValueError(f"the command that removes {self.removes} needs a fragment of its explanation")
        return self


def differences(expected_command: ExpectedCommand, command: Command) -> Iterator[str]:
    if expected_command.reason != command.reason:
        yield f"expected the reason {expected_command.reason}, got {command.reason}"
    if expected_command.launches is not None:
        if len(expected_command.launches) != len(command.replacements):
            yield f"expected {len(expected_command.launches)} new nodes, got {len(command.replacements)}"
        for node, claim in zip(expected_command.launches, command.replacements, strict=False):
            yield from _node_differences(node, claim)
    onto = {node: len(pods) for node, pods in command.destinations.items()}
    if expected_command.onto is not None and expected_command.onto != onto:
        yield f"expected pods onto {expected_command.onto}, got {onto}"
    if expected_command.saving is not None and abs(expected_command.saving - command.saving) > 1e-6:
        yield f"expected a saving of {expected_command.saving}, got {command.saving}"
    if expected_command.type is not None and expected_command.type != command.consolidation_type:
        yield f"expected the consolidation type {expected_command.type}, got {command.consolidation_type}"
    if expected_command.graceful is not None and expected_command.graceful != command.graceful:
        yield f"expected graceful {expected_command.graceful}, got {command.graceful}"
    if expected_command.decision is not None and expected_command.decision != command.decision:
        yield f"expected the decision {expected_command.decision}, got {command.decision}"
    if expected_command.drain_bound is not None:
        bound = command.repair.drain_bound if command.repair is not None else None
        if bound != (duration(expected_command.drain_bound) if expected_command.drain_bound else None):
            yield f"expected the drain bound {expected_command.drain_bound!r}, got {bound}"
    text = "\n".join(command.explanation)
    yield from (
        f"the explanation does not say {fragment!r}"
        for fragment in expected_command.explanation
        if fragment not in text
    )


def _node_differences(expected_node: ExpectedNode, planned_claim: PlannedClaim) -> Iterator[str]:
    allowed = planned_claim.requirements.get("karpenter.sh/capacity-type")
    observations: dict[str, object] = {
        "pool": planned_claim.pool,
        "type": planned_claim.offering.instance_type,
        "types": list(planned_claim.instance_types),
        "type_count": len(planned_claim.instance_types),
        "capacity_type": planned_claim.offering.capacity_type,
        "requires_capacity_type": list(allowed.values),
        "zone": planned_claim.offering.zone,
        "pods": len(planned_claim.pods),
    }
    for name, value in observations.items():
        expected = getattr(expected_node, name)
        if expected is not None and expected != value:
            yield f"expected a new node with {name} {expected}, got {value}"
    if expected_node.price is not None and abs(expected_node.price - planned_claim.price) > 1e-6:
        yield f"expected a new node for ${expected_node.price}, got ${planned_claim.price}"
    yield from (
        f"a new node lists {name}" for name in expected_node.types_exclude if name in planned_claim.instance_types
    )
