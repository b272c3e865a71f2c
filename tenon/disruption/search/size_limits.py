"""Limits how much one decision holds, so that no message of the disruption workflow comes near Temporal's 2 MB.

A workflow whose message is larger fails its task again and again, and then no node is disrupted any more. What is left
out of a decision follows in the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tenon.disruption.decision import Candidate
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.messages.disruption import DisruptionCommand

MAX_NODES = 500
"""The maximum number of nodes in one command."""
MAX_OPEN = 2500
"""No command starts while so many nodes have an open command. The workflow keeps a list of them, about 250 bytes each,
and sends it to the planner."""
MAX_BYTES = 500_000
"""The maximum size of the commands of one decision that move pods. They contain NodeClaims of up to many kilobytes."""


def chosen(
    due: Iterable[tuple[datetime | None, ManagedNode]], budgets: PoolBudgets, situation: Situation
) -> tuple[Candidate, ...]:
    """Return the nodes that the budgets allow and that one command may remove now, and take their budgets.

    ``due``: the nodes that may leave, each with the time since when. The earliest comes first, then the name decides.
    """
    candidates = [Candidate(node, since=since) for since, node in due if since is not None]
    places = min(MAX_NODES, MAX_OPEN - len(situation.under_command))
    leaving: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: (candidate.since, candidate.node.claim)):
        if len(leaving) >= places:
            break
        if budgets.take(candidate.node.pool):
            leaving.append(candidate)
    return tuple(leaving)


def how_many_fit(commands: Sequence[DisruptionCommand]) -> int:
    """Return how many of these commands, from the first, one decision may hold: at least one."""
    size = 0
    for count, command in enumerate(commands):
        size += len(command.model_dump_json().encode())
        if size > MAX_BYTES and count:
            return count
    return len(commands)
