"""The command and the new nodes that a scenario of disruption expects, and how a command differs from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from tenon.apis.reasons import Reason
from tenon.disruption.decision import Command
from tenon.messages.terminate_first import TerminateFirstReason
from tenon.scheduling.model import PlannedClaim
from tenon.scheduling.reservations import reservation_of
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
    reservation: str | None = None
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
    decision: Literal["delete", "replace", "reboot", "terminate-first"] | None = None
    drain_bound: str | None = None
    """The most time that the drain may take by the repair policies; empty if they set none."""
    leaves_first: TerminateFirstReason | None = None
    """Why the node leaves before its replacement starts; it must not if this is left out."""
    intended: list[ExpectedNode] | None = None
    """What comes in its place then."""
    explanation: list[str] = Field(default_factory=list)
    """Fragments. A command for empty or expired nodes says nothing."""

    @model_validator(mode="after")
    def _is_explained(self) -> ExpectedCommand:
        if not self.explanation and self.reason not in (Reason.EMPTY, Reason.EXPIRED):
            raise ValueError(f"the command that removes {self.removes} needs a fragment of its explanation")
        return self


def differences(expected: ExpectedCommand, actual: Command) -> Iterator[str]:
    if expected.reason != actual.reason:
        yield f"expected the reason {expected.reason}, got {actual.reason}"
    if expected.launches is not None:
        if len(expected.launches) != len(actual.replacements):
            yield f"expected {len(expected.launches)} new nodes, got {len(actual.replacements)}"
        for node, claim in zip(expected.launches, actual.replacements, strict=False):
            yield from _node_differences(node, claim)
    reason = actual.terminate_first.reason if actual.terminate_first is not None else None
    if reason != expected.leaves_first:
        yield f"expected it to leave first because of {expected.leaves_first}, got {reason}"
    if (actual.decision == "terminate-first") is not (expected.leaves_first is not None):
        yield f"its decision is {actual.decision}"
    if expected.intended is not None:
        if len(expected.intended) != len(actual.new_claims):
            yield f"expected {len(expected.intended)} intended nodes, got {len(actual.new_claims)}"
        for node, claim in zip(expected.intended, actual.new_claims, strict=False):
            yield from _node_differences(node, claim)
    onto = {node: len(pods) for node, pods in actual.destinations.items()}
    if expected.onto is not None and expected.onto != onto:
        yield f"expected pods onto {expected.onto}, got {onto}"
    if expected.saving is not None and abs(expected.saving - actual.guaranteed_saving) > 1e-6:
        yield f"expected a saving of {expected.saving}, got {actual.guaranteed_saving}"
    if expected.type is not None and expected.type != actual.consolidation_type:
        yield f"expected the consolidation type {expected.type}, got {actual.consolidation_type}"
    if expected.graceful is not None and expected.graceful != actual.graceful:
        yield f"expected graceful {expected.graceful}, got {actual.graceful}"
    if expected.decision is not None and expected.decision != actual.decision:
        yield f"expected the decision {expected.decision}, got {actual.decision}"
    if expected.drain_bound is not None:
        bound = actual.repair.drain_bound if actual.repair is not None else None
        if bound != (duration(expected.drain_bound) if expected.drain_bound else None):
            yield f"expected the drain bound {expected.drain_bound!r}, got {bound}"
    messages = "\n".join(actual.explanation)
    yield from (
        f"the explanation does not say {fragment!r}" for fragment in expected.explanation if fragment not in messages
    )


def _node_differences(expected_node: ExpectedNode, actual: PlannedClaim) -> Iterator[str]:
    allowed = actual.requirements.get("karpenter.sh/capacity-type")
    observed: dict[str, object] = {
        "pool": actual.pool,
        "type": actual.offering.instance_type,
        "types": list(actual.instance_types),
        "type_count": len(actual.instance_types),
        "capacity_type": actual.offering.capacity_type,
        "requires_capacity_type": list(allowed.values),
        "zone": actual.offering.zone,
        "reservation": reservation_of(actual),
        "pods": len(actual.pods),
    }
    for name, value in observed.items():
        expected = getattr(expected_node, name)
        if expected is not None and expected != value:
            yield f"expected a new node with {name} {expected}, got {value}"
    if expected_node.price is not None and abs(expected_node.price - actual.price) > 1e-6:
        yield f"expected a new node for ${expected_node.price}, got ${actual.price}"
    yield from (f"a new node lists {name}" for name in expected_node.types_exclude if name in actual.instance_types)
