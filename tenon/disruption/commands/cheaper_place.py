"""Says why consolidation removes nodes with pods: where their pods run cheaper, and what that is to save."""

from __future__ import annotations

from tenon.apis.reasons import traits_of
from tenon.messages.disruption import DisruptionCommand, Replacement
from tenon.money import per_hour
from tenon.sentences import counted, first_few

NAMED_REPLACEMENTS = 2
"""How many new NodeClaims a sentence names, so that it fits into the detail of a removal."""


def moves_to_save(command: DisruptionCommand) -> bool:
    """Whether it is a consolidation that moves pods."""
    return command.moves_pods and traits_of(command.reason).is_consolidation


def of_command(command: DisruptionCommand) -> str:
    """Say of all nodes of such a command why they leave: 'Their pods fit on 2 existing nodes'."""
    whose = "Its pods" if len(command.candidates) == 1 else "Their pods"
    return f"{whose} {_run_elsewhere(command)}"


def of_node(command: DisruptionCommand) -> str:
    """Say of one node of such a command why it leaves, and what the command is to save, in a clause.

    It does not say which of several new nodes gets the pods of this one: that is not decided for each node.
    """
    others = len(command.candidates) - 1
    whose = f"its pods and those of {counted(others, 'other node')}" if others else "its pods"
    saving = f"; the command is to save {per_hour(command.predicted)}" if command.predicted else ""
    return f"{whose} {_run_elsewhere(command)}{saving}"


def _run_elsewhere(command: DisruptionCommand) -> str:
    hosts = counted(command.existing_nodes, "existing node") if command.existing_nodes else ""
    if not command.replacements:
        return f"fit on {hosts or 'existing nodes'}"
    new = first_few(list(map(_planned, command.replacements)), NAMED_REPLACEMENTS)
    last_comma = "," if len(command.replacements) > 1 else ""
    return f"run cheaper on {new}{last_comma} and {hosts}" if hosts else f"run cheaper on {new}"


def _planned(replacement: Replacement) -> str:
    """Name the new node. EC2 may have launched it as another of its types."""
    return replacement.name + (f" (planned as {replacement.instance_type})" if replacement.instance_type else "")
