"""What is done about an unhealthy node, and when: repair policies as data (N15-101 to N15-108, N15-137 to N15-142).

A policy names a condition of a Node, and a ladder of steps that are taken while the condition lasts. A NodePool has one
set of policies, which are judged together: the set says which policies match a condition, and how priorities compare.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum

from tenon.errors import TenonError
from tenon.kube.records import NodeCondition

STATUSES = ("True", "False", "Unknown")
MAX_PRIORITY = 100
MAX_REASON = 256
"""How much of a reason is searched. Anything may write a condition, and a long reason must not stop the others."""
ANY_REASON = ".*"
"""The regular expression of a policy that matches its condition whatever the reason is."""
REBOOTS = 2
"""How often the built-in policies reboot a node within `REBOOT_WINDOW` before they replace it (N15-154)."""
REBOOT_WINDOW = timedelta(hours=24)


class InvalidRepairPolicyError(TenonError):
    """A set of repair policies cannot be used. The text is one sentence that says which policy is wrong, and why."""


class RepairAction(IntEnum):
    """What a step does. A higher value disrupts the node more (N15-102)."""

    WAIT = 0
    """Nothing: the next step begins when the patience of this one is over."""
    REBOOT = 1
    REPLACE = 2

    @property
    def text(self) -> str:
        """Return Karpenter's name of the action."""
        return _ACTION_TEXTS[self]


_ACTION_TEXTS = {
    RepairAction.WAIT: "Wait",
    RepairAction.REBOOT: "RebootNode",
    RepairAction.REPLACE: "ReplaceNode",
}


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One step of a ladder. Its patience counts from the end of the toleration and of the waiting steps before it."""

    action: RepairAction
    patience: timedelta = timedelta()
    """How long the fault lasts at this step before its action is taken, or before a waiting step ends."""
    at_most: int | None = None
    """How often the action is taken within ``within``; the next step follows then. Only for reboots. None: no limit."""
    within: timedelta | None = None


REPLACE_NODE = LadderStep(RepairAction.REPLACE)
REBOOT_NODE = LadderStep(RepairAction.REBOOT, at_most=REBOOTS, within=REBOOT_WINDOW)


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A condition with this status, for a reason that the expression finds, is a fault of the node."""

    condition: str
    status: str
    reason: str | None
    """A regular expression that is searched in the reason. None makes the policy the fallback of its set."""
    toleration: timedelta
    """How long the condition may last before the first step."""
    drain_bound: timedelta | None = None
    """The most time that a drain may take. None: the NodeClaim's terminationGracePeriod decides; 0: no drain."""
    priority: int = 0
    """From 0 to 100. Only the order of the priorities of a set counts."""
    steps: tuple[LadderStep, ...] = (REPLACE_NODE,)
    name: str = ""
    """What events call it; empty for the built-in policies."""

    @property
    def text(self) -> str:
        """How events and logs call it: its name if it has one, or the condition that it names."""
        kind = "fallback policy" if self.is_fallback else "policy"
        return f"{kind} {self.name or f'{self.condition}={self.status}'}"

    def names(self, condition: NodeCondition) -> bool:
        """Return whether it is for a condition of this type and status."""
        return (self.condition, self.status) == (condition.type, condition.status)

    @property
    def is_fallback(self) -> bool:
        """Whether it applies where no expression of the set finds the reason."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class RepairPolicySet:
    """The policies of a NodePool, which are judged together. `validated` makes one from policies that a user writes."""

    policies: tuple[RepairPolicy, ...] = ()
    by_user: bool = False
    """Each policy without a reason is the fallback of its own type and status, and there may be none."""
    pairs: frozenset[tuple[str, str]] = field(init=False, compare=False, repr=False)
    """The types and statuses that any policy names."""
    _ranks: dict[int, int] = field(init=False, compare=False, repr=False)
    _expressions: dict[str, re.Pattern[str]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compile the expressions.

        Raises:
            InvalidRepairPolicyError: an expression cannot be read.
        """
        priorities = sorted({policy.priority for policy in self.policies})
        expressions = {policy.reason: _compiled(policy) for policy in self.policies if policy.reason is not None}
        object.__setattr__(self, "pairs", frozenset((policy.condition, policy.status) for policy in self.policies))
        object.__setattr__(self, "_ranks", {priority: rank for rank, priority in enumerate(priorities)})
        object.__setattr__(self, "_expressions", expressions)

    def matching(self, condition: NodeCondition) -> tuple[RepairPolicy, ...]:
        """Return the policies for which a condition is a fault, whatever time has passed.

        The fallback applies to each type and status that any policy names, if no expression of these finds the reason
        (N15-105). In a set that a user states, it applies to its own type and status only.
        """
        if (condition.type, condition.status) not in self.pairs:
            return ()
        by_reason = tuple(policy for policy in self.policies if self._finds(policy, condition))
        return by_reason or tuple(
            policy for policy in self.policies if policy.is_fallback and (not self.by_user or policy.names(condition))
        )

    def rank(self, policy: RepairPolicy) -> int:
        """Return the place of the policy's priority among the distinct priorities of the set, from 0 (N15-107)."""
        return self._ranks[policy.priority]

    def _finds(self, policy: RepairPolicy, condition: NodeCondition) -> bool:
        if policy.reason is None or not policy.names(condition):
            return False
        return self._expressions[policy.reason].search(condition.reason[:MAX_REASON]) is not None


def validated(policies: Sequence[RepairPolicy], *, by_user: bool = False) -> RepairPolicySet:
    """Return the set of these policies.

    Args:
        policies: in any order; the order never matters.
        by_user: a user states them. Otherwise one must be the fallback, which may not reboot, as in Karpenter.

    Raises:
        InvalidRepairPolicyError: the policies are no valid set (N15-108); the text is one sentence.
    """
    for wrong in _mistakes(policies, by_user=by_user):
        raise InvalidRepairPolicyError(wrong)
    return RepairPolicySet(tuple(policies), by_user=by_user)


def _mistakes(policies: Sequence[RepairPolicy], *, by_user: bool) -> Iterator[str]:
    if not policies:
        yield "the set has no repair policy: write at least one"
    for policy in policies:
        subject = f"the repair policy for {policy.condition or '(no condition)'}={policy.status or '(no status)'}"
        for wrong in _mistakes_of(policy):
            yield f"{subject} {wrong}"
    if by_user:
        return
    fallbacks = [policy for policy in policies if policy.is_fallback]
    if len(fallbacks) > 1:
        names = " and ".join(f"{policy.condition}={policy.status}" for policy in fallbacks)
        yield f"the set has {len(fallbacks)} policies without a reason ({names}): only one may be the fallback"
    if not fallbacks:
        yield "the set has no policy without a reason: one must be the fallback"
    if any(step.action is RepairAction.REBOOT for policy in fallbacks for step in policy.steps):
        yield "the fallback, which has no reason, reboots: a fallback may only replace the node"


def _mistakes_of(policy: RepairPolicy) -> Iterator[str]:
    if not policy.condition:
        yield "has no condition type: name one, such as Ready"
    if policy.status not in STATUSES:
        yield f"has the status {policy.status!r}: use one of {', '.join(STATUSES)}"
    if policy.toleration < timedelta():
        yield "has a negative toleration: use 0 or more"
    if policy.drain_bound is not None and policy.drain_bound < timedelta():
        yield "has a negative termination grace period: use 0 or more"
    if not 0 <= policy.priority <= MAX_PRIORITY:
        yield f"has the priority {policy.priority}: use 0 to {MAX_PRIORITY}"
    if not policy.steps:
        yield "has no step: write at least one"
    for number, step in enumerate(policy.steps, start=1):
        for wrong in _mistakes_of_step(step, is_last=number == len(policy.steps)):
            yield f"has a wrong step {number}: {wrong}"
    try:
        _compiled(policy)
    except InvalidRepairPolicyError as error:
        yield str(error)


def _mistakes_of_step(step: LadderStep, *, is_last: bool) -> Iterator[str]:
    if step.action not in tuple(RepairAction):
        yield f"it has the unknown action {step.action!r}"
    if step.patience < timedelta():
        yield "its patience is negative"
    if (step.at_most is None) is not (step.within is None):
        yield "its limit needs both a number and a time"
    if step.at_most is not None and step.action is not RepairAction.REBOOT:
        yield "only a reboot may have a limit"
    if step.at_most is not None and step.at_most < 1:
        yield "its limit is below 1"
    if step.within is not None and step.within <= timedelta():
        yield "the time of its limit is not positive"
    if not is_last and step.action is not RepairAction.WAIT and step.at_most is None:
        yield "it has no limit, so the steps after it are never taken"


def _compiled(policy: RepairPolicy) -> re.Pattern[str]:
    try:
        return re.compile(policy.reason or "")
    except re.error as error:
        raise InvalidRepairPolicyError(
            f"has a reason that is no regular expression ({error}): {policy.reason!r}"
        ) from None


_TEN_MINUTES, _HALF_AN_HOUR = timedelta(minutes=10), timedelta(minutes=30)
_REBOOTED = (46, 48, 54, 62, 63, 95, 109, 110, 136, 140, 143, 155, 156, 158)
"""NVIDIA's error codes (XID) of faults that a reboot clears."""
_REPLACED = (64, 74, 79, 119, 120)
"""NVIDIA's error codes of faults that need another instance."""
_AGENT_CONDITIONS = ("StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady")
"""Conditions that the EKS node monitoring agent sets, in addition to AcceleratedHardwareReady."""


def _any_of(codes: Collection[int]) -> str:
    return "XID(" + "|".join(str(code) for code in codes) + ")"


def built_in(*, reboots: bool) -> RepairPolicySet:
    """Return the policies of Karpenter's AWS provider.

    Args:
        reboots: faults that a reboot clears reboot the node first (the AWS feature gate RebootForRepair).
    """
    any_reason = [
        ("Ready", "False"),
        ("Ready", "Unknown"),
        *((condition, "False") for condition in _AGENT_CONDITIONS),
    ]
    hardware, bound = ("AcceleratedHardwareReady", "False"), timedelta(minutes=5)
    steps = (REBOOT_NODE, REPLACE_NODE) if reboots else (REPLACE_NODE,)
    return validated(
        [
            *(RepairPolicy(*pair, ANY_REASON, _HALF_AN_HOUR, _TEN_MINUTES) for pair in any_reason),
            RepairPolicy(*hardware, _any_of(_REBOOTED), _TEN_MINUTES, bound, steps=steps),
            RepairPolicy(*hardware, _any_of(_REPLACED), _TEN_MINUTES, bound),
            RepairPolicy(*hardware, None, _HALF_AN_HOUR, _TEN_MINUTES),
        ]
    )
