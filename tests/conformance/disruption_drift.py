"""A scenario of drift: a NodeClaim, what it was launched from, and the NodePool and EC2NodeClass that are there now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, model_validator

from tenon.disruption.rules.drifted import DesiredNode
from tenon.scheduling.model import InstanceType
from tests.conformance.disruption_head import DescribedScenario
from tests.tenon.apis.case import REMOVED
from tests.tenon.disruption import drifting
from tests.tenon.disruption.clusters import Spec, duration
from tests.tenon.scheduling.builders import CATALOG


class Origin(Spec):
    """What a NodeClaim is launched from, as edits at slash-separated paths below spec; null removes a field."""

    pool: dict[str, Any] = Field(default_factory=dict)
    node_class: dict[str, Any] = Field(default_factory=dict)
    requirements: list[dict[str, Any]] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str | None] = Field(default_factory=dict)


class Current(Spec):
    """What is there now, as edits of the same manifests."""

    pool: dict[str, Any] = Field(default_factory=dict)
    node_class: dict[str, Any] | None = Field(default_factory=dict)
    """null: the EC2NodeClass does not exist."""
    status: dict[str, Any] = Field(default_factory=dict)
    """Status of the EC2NodeClass: what its selectors find."""
    ready: bool = True
    types_gone: list[str] = Field(default_factory=list)
    zones_of: dict[str, list[str]] = Field(default_factory=dict)
    """The zones in which a type is still offered."""
    age: str = "24h"
    """How old the NodeClaim is."""


class Drifting(Spec):
    """A NodeClaim on an m5.large (on-demand, us-west-2a) with ami-amd64, subnet-a, sg-1 and sg-2 (`drifting.py`)."""

    launched: Origin = Origin()
    now: Current = Current()


class ExpectedDrift(Spec):
    """The reason of the condition Drifted, empty if it is not set, and fragments of its message."""

    reason: str
    message: list[str] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)
    """What could not be compared."""
    check_again: str | None = None
    """In how much time."""

    @model_validator(mode="after")
    def _is_explained(self) -> ExpectedDrift:
        if self.reason and not self.message:
            raise ValueError("drift needs a fragment of its message")
        return self


class DriftScenario(DescribedScenario):
    """A NodeClaim that is compared with its NodePool and EC2NodeClass."""

    drift: Drifting
    expect: ExpectedDrift

    def failures(self) -> list[str]:
        """What is wrong with the verdict."""
        before, now = self.drift.launched, self.drift.now
        claim = drifting.launched(
            drifting.pool(_edits(before.pool)),
            drifting.node_class(_edits(before.node_class)),
            requirements=before.requirements,
            labels=before.labels,
            annotations=before.annotations,
        )
        conditions = {} if now.ready else {"conditions": [{**drifting.READY, "status": "False"}]}
        # fields that a launch copied stay unless the case edits them again
        pool = drifting.pool(_edits({**before.pool, **now.pool}))
        current = None
        if now.node_class is not None:
            edits = _edits({**before.node_class, **now.node_class})
            current = drifting.node_class(edits, **now.status, **conditions)
        at = drifting.CREATED + duration(now.age)
        verdict = DesiredNode(pool, current, self._types()).check(claim, at)
        result = (
            str(verdict.drift.reason) if verdict.drift else "",
            sorted(verdict.unknown),
            verdict.check_again,
        )
        again = None if self.expect.check_again is None else at + duration(self.expect.check_again)
        outcome = []
        if result != (self.expect.reason, sorted(self.expect.unknown), again):
            outcome.append(f"expected {self.expect}, got {result}")
        message = verdict.drift.message if verdict.drift else ""
        return outcome + [f"{item!r} is not in {message!r}" for item in self.expect.message if item not in message]

    def _types(self) -> list[InstanceType]:
        now = self.drift.now
        return [
            replace(
                kind, offerings=tuple(o for o in kind.offerings if o.zone in now.zones_of.get(kind.name, (o.zone,)))
            )
            for kind in CATALOG
            if kind.name not in now.types_gone
        ]


def _edits(declaration: Mapping[str, Any]) -> dict[str, Any]:
    return {path: REMOVED if value is None else value for path, value in declaration.items()}
