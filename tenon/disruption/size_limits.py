"""Limits how much one decision holds, so that no message of the disruption workflow comes near Temporal's 2 MB.

A workflow whose message is larger fails its task again and again, and then no node is disrupted any more. What is left
out of a decision follows in the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tenon.disruption.model import Candidate
from tenon.disruption.pool_budgets import PoolBudgets
from tenon.lifecycle.messages.disruption import DisruptionCommand

MAX_NODES = 500
"""The maximum number of nodes in one command."""
MAX_OPEN = 2500
"""No command starts while so many nodes have an open command. The workflow keeps a list of them, about 250 bytes each,
and sends it to the planner."""
MAX_BYTES = 500_000
"""The maximum size of the commands of one decision that move pods. They contain NodeClaims of up to many kilobytes."""


def chosen(due: Iterable[Candidate], budgets: PoolBudgets, under_command: Collection[str]) -> tuple[Candidate, ...]:
    """Return the first candidates that the budgets allow and that one command may remove, and take their budgets.

    ``under_command``: the NodeClaims that open commands remove.
    """
    places = min(MAX_NODES, MAX_OPEN - len(under_command))
    found: list[Candidate] = []
    for candidate in due:
        if len(found) >= places:
            break
        if budgets.take(candidate.node.pool):
            found.append(candidate)
    return tuple(found)


def how_many_fit(commands: Sequence[DisruptionCommand]) -> int:
    """Return how many of these commands, from the first, one decision may hold: at least one."""
    size = 0
    for count, command in enumerate(commands):
        size += len(command.model_dump_json().encode())
        if size > MAX_BYTES and count:
            return count
    return len(commands)
