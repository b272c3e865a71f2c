"""Commands of the model that wait before they are validated, so that none acts on a passing state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.apis.nodepool import NodePool
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.commands.command_messages import new_command_id, to_message
from tenon.disruption.decision import Command
from tenon.messages.disruption import DisruptionCommand, Replacement
from tenon.messages.explanation import Explanation
from tenon.provisioning.claims import replacement_claim_body


@dataclass(frozen=True, slots=True)
class WaitingCommand:
    """A command, and when it is validated."""

    command: Command
    message: DisruptionCommand
    """What the validation reads: also which pods its candidates had when it was decided."""
    due: float
    """In seconds since the epoch."""

    @property
    def claims(self) -> frozenset[str]:
        """The NodeClaims that leave."""
        return frozenset(candidate.claim for candidate in self.message.candidates)


def waiting(command: Command, model: ClusterModel, pools: Mapping[str, NodePool], due: float) -> WaitingCommand:
    """Return a command as it waits.

    Args:
        command: the command.
        model: the cluster that it was decided on.
        pools: the NodePools, by name.
        due: when it is validated, in seconds since the epoch.
    """
    ident = new_command_id(command)
    replacements = []
    for number, planned in enumerate(command.replacements):
        name = f"{ident}-{number}"
        body = replacement_claim_body(planned, pools[planned.pool], name, ident, command.reason, Explanation())
        replacements.append(Replacement(name=name, pool=planned.pool, body=body))
    message = to_message(command, ident=ident, replacements=replacements, details=model.details)
    return WaitingCommand(command, message, due)


def claims_of(commands: Iterable[WaitingCommand]) -> frozenset[str]:
    """Return the NodeClaims that leave with any of the commands."""
    return frozenset[str]().union(*(command.claims for command in commands))


def due_commands(commands: Sequence[WaitingCommand], now: float) -> list[WaitingCommand]:
    """Return the commands that are validated now."""
    return [command for command in commands if command.due <= now]
