"""The command and the new nodes that a scenario of disruption expects, and how a command differs from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from tenon.apis.reasons import Reason
from tenon.disruption.model import Command
from tenon.messages.disruption import TerminateFirstReason
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


def differences(wanted: ExpectedCommand, got: Command) -> Iterator[str]:
    if wanted.reason != got.reason:
        yield f"expected the reason {wanted.reason}, got {got.reason}"
    if wanted.launches is not None:
        if len(wanted.launches) != len(got.replacements):
            yield f"expected {len(wanted.launches)} new nodes, got {len(got.replacements)}"
        for node, claim in zip(wanted.launches, got.replacements, strict=False):
            yield from _node_differences(node, claim)
    reason = got.terminate_first.reason if got.terminate_first is not None else None
    if reason != wanted.leaves_first:
        yield f"expected it to leave first because of {wanted.leaves_first}, got {reason}"
    if (got.decision == "terminate-first") is not (wanted.leaves_first is not None):
        yield f"its decision is {got.decision}"
    if wanted.intended is not None:
        if len(wanted.intended) != len(got.new_claims):
            yield f"expected {len(wanted.intended)} intended nodes, got {len(got.new_claims)}"
        for node, claim in zip(wanted.intended, got.new_claims, strict=False):
            yield from _node_differences(node, claim)
    onto = {node: len(pods) for node, pods in got.destinations.items()}
    if wanted.onto is not None and wanted.onto != onto:
        yield f"expected pods onto {wanted.onto}, got {onto}"
    if wanted.saving is not None and abs(wanted.saving - got.saving) > 1e-6:
        yield f"expected a saving of {wanted.saving}, got {got.saving}"
    if wanted.type is not None and wanted.type != got.consolidation_type:
        yield f"expected the consolidation type {wanted.type}, got {got.consolidation_type}"
    if wanted.graceful is not None and wanted.graceful != got.graceful:
        yield f"expected graceful {wanted.graceful}, got {got.graceful}"
    if wanted.decision is not None and wanted.decision != got.decision:
        yield f"expected the decision {wanted.decision}, got {got.decision}"
    if wanted.drain_bound is not None:
        bound = got.repair.drain_bound if got.repair is not None else None
        if bound != (duration(wanted.drain_bound) if wanted.drain_bound else None):
            yield f"expected the drain bound {wanted.drain_bound!r}, got {bound}"
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
        "zone": got.offering.zone,
        "reservation": reservation_of(got),
        "pods": len(got.pods),
    }
    for name, value in seen.items():
        expected = getattr(wanted, name)
        if expected is not None and expected != value:
            yield f"expected a new node with {name} {expected}, got {value}"
    if wanted.price is not None and abs(wanted.price - got.price) > 1e-6:
        yield f"expected a new node for ${wanted.price}, got ${got.price}"
    yield from (f"a new node lists {name}" for name in wanted.types_exclude if name in got.instance_types)
