"""Explains in a few lines why a NodeClaim is bought. The claim carries the text, and its workflow shows it."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.money import per_hour
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import PlannedClaim
from tenon.sentences import counted, first_few

NAMED_PODS, NAMED_TYPES = 5, 5
MAX_LINES, MAX_LINE = 6, 300
"""Lines, and bytes per line, that a workflow accepts: it carries them through each of its runs."""
MAX_EXPLAINED = 200
"""How many claims of a plan get their type explained. More would delay the pods of a large plan."""


def explanations(winners: TypeChoiceExplainer, claims: Sequence[PlannedClaim]) -> list[str]:
    """Returns, for each claim of a plan, the lines that say why it is bought."""
    return [
        explanation(claim, winners.why(claim) if number < MAX_EXPLAINED else "") for number, claim in enumerate(claims)
    ]


def explanation(claim: PlannedClaim, choice: str, occasion: str = "") -> str:
    """List the pods, the cheapest types, the reason for the choice among them, and the price.

    Args:
        claim: the planned claim.
        choice: why its cheapest type was chosen; may be empty.
        occasion: why the claim is bought, if not for pods.
    """
    pods = sorted(pod.key for pod in claim.pods if not pod.buffer)
    rooms = len(claim.pods) - len(pods)
    lines = [occasion] if occasion else []
    if pods:
        lines.append(f"{counted(len(pods), 'pod')}: {first_few(pods, NAMED_PODS)}")
    if rooms:
        lines.append(f"room for {counted(rooms, 'pod')} of CapacityBuffers")
    lines.append(f"cheapest available types that fit: {first_few(claim.instance_types, NAMED_TYPES)}")
    if choice:
        lines.append(choice)
    bought = claim.offering
    place = f"{bought.instance_type}, {bought.zone}, {bought.capacity_type}"
    lines.append(f"planned price: {per_hour(claim.price)} ({place})")
    return "\n".join(_cut(line) for line in lines)


def bounded_lines(text: str) -> list[str]:
    """Limit an explanation to the lines that a workflow accepts, because people may edit annotations."""
    return [_cut(line) for line in text.splitlines()[:MAX_LINES]]


def _cut(line: str) -> str:
    if len(line.encode()) <= MAX_LINE:
        return line
    return line.encode()[: MAX_LINE - len("…".encode())].decode(errors="ignore") + "…"
