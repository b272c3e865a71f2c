"""What keeps nodes that their own objects do not say: a removal that waits for approval, and a frozen NodePool.

The sentences are those of `tenon explain node`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tenon.apis.reasons import snake_case
from tenon.fleet.disruption_state import DisruptionState
from tenon.fleet.rows import NodeRow
from tenon.fleet.summary import CommandSummary, FrozenPools
from tenon.node.leave_text import approval_text

_FREEZABLE = frozenset({DisruptionState.DRIFTED, DisruptionState.CONSOLIDATABLE, DisruptionState.RESTING})
"""What a freeze stops, and what a person is asked about: it stops expiry only for a time."""
_ASKABLE = _FREEZABLE | {DisruptionState.BLOCKED, DisruptionState.NEVER, DisruptionState.IN_USE}


def with_waits(
    rows: Iterable[NodeRow], commands: Iterable[CommandSummary], frozen: Iterable[FrozenPools]
) -> list[NodeRow]:
    """Return the rows with what commands that wait for approval and freezes say of them.

    Args:
        rows: as Nodes, NodeClaims and NodePools say it.
        commands: under way; those that wait for approval name the nodes that would leave.
        frozen: the NodePools in which disruption is stopped now.
    """
    waiting_commands = {name: command for command in commands if command.awaits_approval for name in command.nodes}
    clauses = {pool: item.clause for item in frozen for pool in item.pools}
    return [_with_wait(row, waiting_commands.get(row.name), clauses.get(row.pool, "")) for row in rows]


def _with_wait(row: NodeRow, command: CommandSummary | None, clause: str) -> NodeRow:
    if clause and row.claim and row.disruption in _FREEZABLE:
        drift = f"; drifted: {row.why}" if row.disruption is DisruptionState.DRIFTED and row.why else ""
        return replace(row, disruption=DisruptionState.FROZEN, why=f"NodePool {row.pool} is {clause}{drift}")
    if command is not None and row.disruption in _ASKABLE:
        why = approval_text(snake_case(command.reason), command.id, command.started).replace("`", "")
        return replace(row, disruption=DisruptionState.ASKED, why=why)
    return row
