"""Why a node leaves, and why a launch came to nothing: one member for each reason, other spellings derived from it.

The value is what workflow states, results and messages hold, so it never changes. Karpenter writes the same reasons in
two more ways: in CamelCase in conditions and events, and in snake case in metrics.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Reason(StrEnum):
    """The closed set of reasons that Tenon itself gives. EC2's own codes become further reasons of failed launches."""

    # Methods of disruption, as the budgets of a NodePool name them.
    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"
    # The end of a node without a disruption command.
    EXPIRED = "expired"
    GARBAGE_COLLECTED = "garbage_collected"
    REGISTRATION_TIMEOUT = "registration_timeout"
    INITIALIZATION_TIMEOUT = "initialization_timeout"
    # A launch that came to nothing.
    INSUFFICIENT_CAPACITY = "insufficient_capacity"
    NODECLASS_NOT_READY = "nodeclass_not_ready"
    LAUNCH_TIMEOUT = "launch_timeout"
    INSTANCE_GONE = "instance_gone"
    TEMPLATE_GONE = "template_gone"
    # What people ask for.
    DELETED = "deleted"
    DRAIN = "drain"
    FORCE_DRAIN = "force_drain"
    CANCELLED = "cancelled"

    @classmethod
    def of(cls, text: str) -> Reason | None:
        """The reason that a text in any spelling names; None if it is not one of these."""
        return _BY_LETTERS.get(_letters(text))

    @property
    def camel_case(self) -> str:
        """The spelling of conditions and events."""
        return _CAMEL_CASE.get(self, "".join(word[0].upper() + word[1:] for word in self.value.split("_")))

    @property
    def snake_case(self) -> str:
        """The spelling of metric labels."""
        return self.value.lower()

    @property
    def is_disruption(self) -> bool:
        """Whether a disruption command gives this reason. Expiration needs no command."""
        return self in _DISRUPTIONS

    @property
    def is_by_hand(self) -> bool:
        """Whether a person asked for it. Karpenter does not count these as disruptions."""
        return self in _BY_HAND

    @property
    def termination_mode(self) -> str:
        """Graceful: protected pods keep the node. Eventual: until its terminationGracePeriod. Forceful: never."""
        return _TERMINATION_MODES.get(self, "forceful")


_DISRUPTIONS = frozenset({Reason.EMPTY, Reason.DRIFTED, Reason.UNDERUTILIZED})
_BY_HAND = frozenset({Reason.DELETED, Reason.DRAIN, Reason.FORCE_DRAIN, Reason.CANCELLED})
_TERMINATION_MODES = {Reason.EMPTY: "graceful", Reason.UNDERUTILIZED: "graceful", Reason.DRIFTED: "eventual"}
_CAMEL_CASE = {Reason.NODECLASS_NOT_READY: "NodeClassNotReady"}


def camel_case(text: str) -> str:
    """A reason as a condition writes it, also one that is not a `Reason`: EC2's codes are reasons too."""
    if (known := Reason.of(text)) is not None:
        return known.camel_case
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "".join(word[0].upper() + word[1:] for word in words).lstrip("0123456789")


def snake_case(text: str) -> str:
    """A reason as a metric label writes it, also one that is not a `Reason`."""
    return known.snake_case if (known := Reason.of(text)) is not None else text.lower()


def _letters(text: str) -> str:
    return text.replace("_", "").lower()


_BY_LETTERS = {_letters(reason.value): reason for reason in Reason}
