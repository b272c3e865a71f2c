"""Why a node is removed, and why a launch failed: one enum member per reason, from which other spellings are derived.

Workflow state, results and messages contain the value, so it must never change. Karpenter writes the same reasons in
two other ways: in CamelCase in conditions and events, and in snake case in metrics.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Reason(StrEnum):
    """The reasons that Tenon itself gives. A failed launch may also have one of EC2's error codes as its reason."""

    # Disruption methods, as the budgets of a NodePool name them.
    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"
    # Termination that ignores what protects a node. Budgets may cover expiration, which is then a command.
    EXPIRED = "expired"
    GARBAGE_COLLECTED = "garbage_collected"
    REGISTRATION_TIMEOUT = "registration_timeout"
    INITIALIZATION_TIMEOUT = "initialization_timeout"
    UNHEALTHY = "unhealthy"
    # Failed launches.
    INSUFFICIENT_CAPACITY = "insufficient_capacity"
    NODECLASS_NOT_READY = "nodeclass_not_ready"
    LAUNCH_TIMEOUT = "launch_timeout"
    INSTANCE_GONE = "instance_gone"
    TEMPLATE_GONE = "template_gone"
    # Requests by users.
    DELETED = "deleted"
    DRAIN = "drain"
    FORCE_DRAIN = "force_drain"
    CANCELLED = "cancelled"

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
        return self in _DISRUPTIONS

    @property
    def is_by_hand(self) -> bool:
        """Whether a user requested it. Karpenter does not count these as disruptions."""
        return self in _BY_HAND

    @property
    def termination_mode(self) -> str:
        """Protected pods keep the node: graceful, forever; eventual, for terminationGracePeriod; forceful, never."""
        return _TERMINATION_MODES.get(self, "forceful")


_DISRUPTIONS = frozenset({Reason.EMPTY, Reason.DRIFTED, Reason.UNDERUTILIZED})
_BY_HAND = frozenset({Reason.DELETED, Reason.DRAIN, Reason.FORCE_DRAIN, Reason.CANCELLED})
_TERMINATION_MODES = {Reason.EMPTY: "graceful", Reason.UNDERUTILIZED: "graceful", Reason.DRIFTED: "eventual"}
_CAMEL_CASE = {Reason.NODECLASS_NOT_READY: "NodeClassNotReady"}


def camel_case(text: str) -> str:
    """Return the spelling of a reason in conditions. Unknown reasons, such as EC2's error codes, are converted too."""
    if (known := Reason.of(text)) is not None:
        return known.camel_case
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "".join(word[0].upper() + word[1:] for word in words).lstrip("0123456789")


def snake_case(text: str) -> str:
    """Return the spelling of a reason in metric labels. Unknown reasons are lowercased."""
    return known.snake_case if (known := Reason.of(text)) is not None else text.lower()


def _letters(text: str) -> str:
    return text.replace("_", "").lower()


_BY_LETTERS = {_letters(reason.value): reason for reason in Reason}
