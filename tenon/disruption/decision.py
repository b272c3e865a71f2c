"""What disruption answers: the commands that each method proposes, what is in the way, and when to ask again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from tenon.apis.reasons import Reason
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.decision import RepairDecision
from tenon.disruption.repair.policies import RepairAction
from tenon.kube.pod import Pod
from tenon.messages.base import REBOOT
from tenon.scheduling.model import PlannedClaim

if TYPE_CHECKING:  # plans for pending pods use some of this, and no message
    from tenon.messages.disruption import PassCursor
    from tenon.messages.terminate_first import TerminateFirstReason


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a method wants to remove."""

    node: ManagedNode
    since: datetime
    """When the method's reason started to hold."""


@dataclass(frozen=True, slots=True)
class TerminateFirst:
    """How a node is replaced that must leave before its replacement can start (N15-191)."""

    reason: TerminateFirstReason
    intended: tuple[PlannedClaim, ...]
    """What comes in its place once it is gone, as far as is known now. Ordinary provisioning buys it."""
    reservation: str = ""
    """The ID of the capacity reservation that gets a place when the node leaves; empty if it is in none."""


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes to remove together for one reason, and what comes in their place."""

    method: str
    reason: Reason
    consolidation_type: str
    candidates: tuple[Candidate, ...]
    only_if_empty: bool = False
    """Each node stays if it has a pod after it was tainted."""
    replacements: tuple[PlannedClaim, ...] = ()
    """New nodes that must be initialized before the candidates leave, each with the pods that it is for."""
    destinations: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Existing node -> the pods that are expected to move there."""
    moves_pods: bool = False
    """The candidates may have pods. The command is validated, and undone if something fails (DIS-60 to DIS-65)."""
    graceful: bool = True
    """The command gives way to a pod that may not be moved, and is validated after a delay (DIS-46)."""
    expected: float = 0.0
    """Dollars an hour that the command saves, if every new node is launched as its cheapest type; negative if it costs
    more, as a drift may. This is the saving that people read of a command."""
    guaranteed_saving: float = 0.0
    """What it saves if every new node is launched as its dearest type."""
    explanation: tuple[str, ...] = ()
    """A few lines that say why, for the command's page in the Temporal UI. The first one is also the detail of the
    removal."""
    repair: RepairDecision | None = None
    """The fault that the command repairs."""
    terminate_first: TerminateFirst | None = None
    """Set if the node leaves before its replacement starts. Then the command has no ``replacements``."""
    approve_within: timedelta | None = None
    """How long it waits until a person approves it; None if it does not wait."""

    @property
    def decision(self) -> str:
        """Return what the command does, as the label ``decision`` of metrics (N15-238)."""
        if self.repair is not None and self.repair.action is RepairAction.REBOOT:
            return REBOOT
        if self.terminate_first is not None:
            return "terminate-first"
        return "replace" if self.replacements else "delete"

    @property
    def new_claims(self) -> tuple[PlannedClaim, ...]:
        """The nodes that are bought for the command, before or after its candidates leave."""
        return self.terminate_first.intended if self.terminate_first is not None else self.replacements

    @property
    def freed_places(self) -> Mapping[str, int]:
        """By ID of a capacity reservation, how many of its places a plan may use that the candidates still have."""
        name = self.terminate_first.reservation if self.terminate_first is not None else ""
        return {name: 1} if name else {}


@dataclass(frozen=True, slots=True)
class BalancedVerdict:
    """What a NodePool with the policy Balanced says about a move (DIS-42)."""

    pool: str
    claims: tuple[str, ...]
    """The NodeClaims that the move removes, of any NodePool."""
    score: float
    approved: bool
    """Whether the move is made: every Balanced NodePool with a node in it must approve it (DIS-44)."""
    savings: float = 0.0
    """Of a move that is made: what it saves, as a part of what the nodes of the NodePool cost."""
    disruption: float = 0.0
    """Of such a move: what it disrupts, as a part of what moving all pods of the NodePool would."""


class DisruptionBlocked(NamedTuple):
    """Why a node cannot leave although a method wants it to."""

    cause: str
    """Why it should leave, in a clause."""
    why: str
    """What is in the way, in a clause."""

    def __str__(self) -> str:
        """Return both, in a sentence for an event."""
        return f"{self.cause}, but {self.why}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A method's answer: its commands, and when to run it again if nothing changes (None: only on a change)."""

    commands: tuple[Command, ...] = ()
    next_pass: datetime | None = None
    blocked: Mapping[str, DisruptionBlocked] = field(default_factory=dict)
    """By NodeClaim, why it cannot leave although the method's reason holds (DIS-15)."""
    unconsolidatable: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim, why consolidation leaves its node as it is, in a sentence for an event (EVT-02)."""
    verdicts: tuple[BalancedVerdict, ...] = ()
    """The moves that Balanced judged."""
    cursor: PassCursor | None = None
    """Where the next pass goes on; None if this one looked at all nodes."""
    is_cut: bool = False
    """Whether it ended before it had tried every candidate."""
    failed: Exception | None = None
    """What failed, if the method has an answer all the same: what it decided about other nodes, or where the next pass
    goes on."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of all methods."""

    commands: tuple[Command, ...] = ()
    next_pass: datetime | None = None
    failed: Mapping[str, Exception] = field(default_factory=dict)
    """By method name, the exception it raised. Other methods are not affected."""
    eligible: Mapping[Reason, int] = field(default_factory=dict)
    """By reason, how many nodes the methods would disrupt now if the budgets had no limit (MET-32)."""
    blocked: Mapping[str, DisruptionBlocked] = field(default_factory=dict)
    """By NodeClaim, why it cannot leave although a method's reason holds, by the first such method."""
    unconsolidatable: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim, why consolidation leaves its node as it is."""
    verdicts: tuple[BalancedVerdict, ...] = ()
    """The moves that Balanced judged."""
    cursor: PassCursor | None = None
    """Where the next pass of consolidation goes on; None if this one looked at all nodes, or failed."""
    is_cut: bool = False
    """Whether a method ended before it had tried every candidate."""
