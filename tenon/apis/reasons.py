"""Why a node is removed, and why a launch failed: one enum member per reason, which owns all that the reason means.

Workflow state, results and messages contain the value, so it must never change. Karpenter writes the same reasons in
two other ways: in CamelCase in conditions and events, and in snake case in metrics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

Mode = Literal["graceful", "eventual", "forceful"]
Budgeted = Literal["always", "on request", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a reason means. No trait has a default, so that Python refuses a reason that lacks one."""

    mode: Mode
    """Protected pods keep the node: graceful, forever; eventual, for terminationGracePeriod; forceful, never."""
    budgeted: Budgeted
    """Whether budgets and disruption windows limit it; on request: only in NodePools that ask for it."""
    is_consolidation: bool
    """A NodePool's consolidateAfter and consolidationPolicy apply, and metrics name that policy."""
    moves_pods: bool
    """Its nodes may have pods, so its commands are found and validated on a model of the cluster."""
    fixes_pods: bool
    """A command holds only for the pods that it was decided for, because others change what it saves."""
    counts_savings: bool
    """Its commands must pay, so what they save is measured. Otherwise they may take dearer replacements."""
    counts_not_ready: bool
    """Nodes that are not ready use its budgets up. Those of repair often are not."""
    is_by_hand: bool
    """A user requested it. Karpenter does not count these as disruptions."""


_FORCEFUL = Traits(
    mode="forceful",
    budgeted="never",
    is_consolidation=False,
    moves_pods=False,
    fixes_pods=False,
    counts_savings=False,
    counts_not_ready=True,
    is_by_hand=False,
)
"""Most reasons: the node leaves whatever protects it, and no disruption method looks for it."""
_BY_HAND = replace(_FORCEFUL, is_by_hand=True)


class Reason(StrEnum):
    """The reasons that Tenon itself gives.

    A failed launch may also have one of EC2's error codes as its reason, and a node whose instance ends or fails the
    kind of the notice about it (`tenon.ec2.instances.interruption.NoticeKind`).
    """

    traits: Traits

    def __new__(cls, value: str, traits: Traits | None = None) -> Reason:
        """Create the member of a value.

        Raises:
            TypeError: it has no traits.
        """
        if traits is None:
            raise TypeError(f"the reason {value} has no traits: say what it means in tenon/apis/reasons.py")
        member = str.__new__(cls, value)
        member._value_ = value
        member.traits = traits
        return member

    # Disruption methods, as the budgets of a NodePool name them.
    UNDERUTILIZED = (
        "Underutilized",
        Traits(
            mode="graceful",
            budgeted="always",
            is_consolidation=True,
            moves_pods=True,
            fixes_pods=True,
            counts_savings=True,
            counts_not_ready=True,
            is_by_hand=False,
        ),
    )
    EMPTY = (
        "Empty",
        Traits(
            mode="graceful",
            budgeted="always",
            is_consolidation=True,
            moves_pods=False,
            fixes_pods=False,
            counts_savings=False,
            counts_not_ready=True,
            is_by_hand=False,
        ),
    )
    DRIFTED = (
        "Drifted",
        Traits(
            mode="eventual",
            budgeted="always",
            is_consolidation=False,
            moves_pods=True,
            fixes_pods=False,
            counts_savings=False,
            counts_not_ready=True,
            is_by_hand=False,
        ),
    )
    UNHEALTHY = (
        "Unhealthy",
        Traits(
            mode="eventual",
            budgeted="always",
            is_consolidation=False,
            moves_pods=True,
            fixes_pods=False,
            counts_savings=False,
            counts_not_ready=False,
            is_by_hand=False,
        ),
    )
    # Termination that ignores what protects a node. Budgets may cover expiration, which is then a command.
    EXPIRED = ("expired", replace(_FORCEFUL, budgeted="on request"))
    GARBAGE_COLLECTED = ("garbage_collected", _FORCEFUL)
    REGISTRATION_TIMEOUT = ("registration_timeout", _FORCEFUL)
    INITIALIZATION_TIMEOUT = ("initialization_timeout", _FORCEFUL)
    OVERPROVISIONED = ("overprovisioned", _FORCEFUL)
    SCHEDULED_OFF = ("scheduled_off", _FORCEFUL)
    CAPACITY_RESERVATION_EXPIRING = ("capacity_reservation_expiring", _FORCEFUL)
    UNUSED_REPLACEMENT = ("unused_replacement", _FORCEFUL)
    WARM_START_FAILED = ("warm_start_failed", _FORCEFUL)
    WARM_STOP_FAILED = ("warm_stop_failed", _FORCEFUL)
    # Failed launches.
    INSUFFICIENT_CAPACITY = ("insufficient_capacity", _FORCEFUL)
    NODECLASS_NOT_READY = ("nodeclass_not_ready", _FORCEFUL)
    LAUNCH_TIMEOUT = ("launch_timeout", _FORCEFUL)
    INSTANCE_GONE = ("instance_gone", _FORCEFUL)
    TEMPLATE_GONE = ("template_gone", _FORCEFUL)
    # Requests by users.
    DELETED = ("deleted", _BY_HAND)
    DRAIN = ("drain", _BY_HAND)
    FORCE_DRAIN = ("force_drain", _BY_HAND)
    CANCELLED = ("cancelled", _BY_HAND)

    @classmethod
    def of(cls, text: str) -> Reason | None:
        """Return the reason for a text in any spelling; None if it is unknown."""
        return _BY_LETTERS.get(_letters(text))

    @property
    def camel_case(self) -> str:
        """The spelling in conditions and events."""
        return _CAMEL_CASE.get(self, "".join(word[0].upper() + word[1:] for word in self.value.split("_")))

    @property
    def snake_case(self) -> str:
        """The spelling in metric labels."""
        return self.value.lower()

    @property
    def is_disruption(self) -> bool:
        """Whether the reason respects what protects a node. Expiration does not, even if a command removes the node."""
        return self.traits.mode != "forceful"

    @property
    def is_by_hand(self) -> bool:
        """Whether a user requested it."""
        return self.traits.is_by_hand


def traits_of(text: str) -> Traits:
    """Return the traits of a reason in any spelling. An unknown one, such as EC2's error codes, is forceful."""
    reason = Reason.of(text)
    return reason.traits if reason is not None else _FORCEFUL


_CAMEL_CASE = {Reason.NODECLASS_NOT_READY: "NodeClassNotReady"}


def camel_case(text: str) -> str:
    """Return the spelling of a reason in conditions. Unknown reasons, such as EC2's error codes, are converted too."""
    if (reason := Reason.of(text)) is not None:
        return reason.camel_case
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "".join(word[0].upper() + word[1:] for word in words).lstrip("0123456789")


def snake_case(text: str) -> str:
    """Return the spelling of a reason in metric labels. Unknown reasons are lowercased."""
    return reason.snake_case if (reason := Reason.of(text)) is not None else text.lower()


def _letters(text: str) -> str:
    return text.replace("_", "").lower()


_BY_LETTERS = {_letters(reason.value): reason for reason in Reason}
BUDGETED = tuple(reason for reason in Reason if reason.traits.budgeted == "always")
"""The reasons that budgets and disruption windows limit, and that they may name."""
EVERY_BUDGETED = (*BUDGETED, *(reason for reason in Reason if reason.traits.budgeted == "on request"))
"""The same, with those that a NodePool may ask for."""
MOVING = tuple(reason for reason in Reason if reason.traits.moves_pods)
"""The reasons for which a pass over the cluster moves pods."""
