"""The annotations of a NodePool that have disruption commands wait until a person approves them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from tenon.apis.duration import go_seconds
from tenon.apis.reasons import BUDGETED, Reason

REASONS = BUDGETED
"""The reasons that may wait: those that budgets limit. An expired node leaves by a time that its owner set, often for
security, and other removals have happened or must not wait, such as those before an interruption."""
DEFAULT_WITHIN = timedelta(hours=24)
SHORTEST, LONGEST = timedelta(minutes=1), timedelta(days=30)
_REASONS = ", ".join(reason.value for reason in REASONS)
_EXAMPLE = "'Drifted, Underutilized above 3 nodes or 16 cpu'"
_ENTRY = re.compile(r"([A-Za-z]+)(?:\s+above\s+(.+))?")
_AMOUNT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(nodes?|cpu)")


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The commands for one reason that wait: all, or those above one of two amounts."""

    reason: Reason
    above_nodes: int | None = None
    """More than so many nodes leave together."""
    above_cpu: int | None = None
    """More than so many millicores of allocatable CPU are lost: those of the nodes without their replacements."""

    @property
    def has_no_amounts(self) -> bool:
        """Whether all commands wait, however small."""
        return self.above_nodes is None and self.above_cpu is None

    def applies(self, nodes: int, cpu: int) -> bool:
        """Return whether a command waits that removes so many nodes, and so many millicores without replacement."""
        if self.has_no_amounts:
            return True
        return (self.above_nodes is not None and nodes > self.above_nodes) or (
            self.above_cpu is not None and cpu > self.above_cpu
        )


EVERY_REASON = tuple(ApprovalRule(reason) for reason in REASONS)
"""The rules of a NodePool whose annotation cannot be read: nothing leaves that somebody may have wanted to see."""


@lru_cache(maxsize=1024)
def read_approval_rules(text: str) -> tuple[ApprovalRule, ...]:
    """Read the annotation `tenon.sh/approve`.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    rules: dict[Reason, ApprovalRule] = {}
    for part in text.split(","):
        match = _ENTRY.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{ascii(text)[:80]} is not a list of reasons: write one such as {_EXAMPLE}")
        reason = next((reason for reason in REASONS if reason.value == match[1]), None)
        if reason is None:
            why = "never waits for an approval" if Reason.of(match[1]) is not None else "is not a reason"
            raise ValueError(f"{match[1][:40]!r} {why}: the reasons that may wait are {_REASONS}")
        if reason in rules:
            raise ValueError(f"{ascii(text)[:80]} has {reason.value} twice: join the amounts with 'or'")
        rules[reason] = _rule(reason, match[2])
    return tuple(rules.values())


def _rule(reason: Reason, amounts: str | None) -> ApprovalRule:
    if amounts is None:
        return ApprovalRule(reason)
    limits: dict[str, float] = {}
    for part in re.split(r"\s+or\s+", amounts.strip()):
        match = _AMOUNT.fullmatch(part)
        if match is None or (match[2] != "cpu" and "." in match[1]):
            raise ValueError(
                f"{part[:40]!r} after {reason.value} is not an amount: write a number of nodes or of cpu, as in "
                f"{_EXAMPLE}"
            )
        unit = "cpu" if match[2] == "cpu" else "nodes"
        if unit in limits:
            raise ValueError(f"{amounts[:40]!r} after {reason.value} has two numbers of {unit}: write one of them")
        limits[unit] = float(match[1])
    return ApprovalRule(
        reason,
        above_nodes=int(limits["nodes"]) if "nodes" in limits else None,
        above_cpu=round(limits["cpu"] * 1000) if "cpu" in limits else None,
    )


@lru_cache(maxsize=1024)
def read_approve_within(text: str) -> timedelta:
    """Read the annotation `tenon.sh/approve-within`.

    Raises:
        ValueError: it cannot be read, or is too short or too long. The message is a clause for a user.
    """
    seconds = go_seconds(text)
    if seconds is None or not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
        raise ValueError(f"{ascii(text)[:80]} is not a duration from 1m to 720h: write one such as 48h")
    return timedelta(seconds=seconds)
