"""Why a NodeClaim is bought, in a few lines: written on the claim, and shown by its workflow while it lives."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.scheduling.explanation.type_choice import Winners
from tenon.scheduling.model import PlannedClaim, Problem

NAMED_PODS, NAMED_TYPES = 5, 5
MAX_LINES, MAX_LINE = 6, 300
"""Lines, and bytes of one line, that a workflow takes: it carries them through each of its runs."""
MOST_EXPLAINED = 200
"""Claims of one plan whose type is explained: the pods of a large plan must not wait longer for it."""


def explanations(problem: Problem, claims: Sequence[PlannedClaim]) -> list[str]:
    """For each claim of a plan for the problem, the lines that say why it is bought."""
    winners = Winners(problem)
    return [
        explanation(claim, winners.why(claim) if number < MOST_EXPLAINED else "") for number, claim in enumerate(claims)
    ]


def explanation(claim: PlannedClaim, choice: str) -> str:
    """The pods, the cheapest types, the choice among them in a sentence, and the price."""
    pods = sorted(pod.key for pod in claim.pods if not pod.buffer)
    rooms = len(claim.pods) - len(pods)
    lines = []
    if pods:
        lines.append(f"{_count(len(pods), 'pod')}: {_some(pods, NAMED_PODS)}")
    if rooms:
        lines.append(f"room for {_count(rooms, 'pod')} of CapacityBuffers")
    lines.append(f"cheapest types that fit: {_some(claim.instance_types, NAMED_TYPES)}")
    if choice:
        lines.append(choice)
    bought = claim.offering
    place = f"{bought.instance_type}, {bought.zone}, {bought.capacity_type}"
    lines.append(f"planned price: {claim.price:.4f} $/h ({place})")
    return "\n".join(_cut(line) for line in lines)


def bounded_lines(text: str) -> list[str]:
    """The lines of an explanation as a workflow takes them: people may edit annotations."""
    return [_cut(line) for line in text.splitlines()[:MAX_LINES]]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _some(names: Sequence[str], most: int) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _cut(line: str) -> str:
    if len(line.encode()) <= MAX_LINE:
        return line
    return line.encode()[: MAX_LINE - len("…".encode())].decode(errors="ignore") + "…"
