"""Lets commands of one pass evict their pods at the same time, once all of them have tainted their nodes.

kube-scheduler puts a pod on the emptiest node that is not tainted. While commands taint and evict one after another,
this is a node that another command of the pass is about to remove. That command then ends, and the node keeps the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.messages.disruption import DisruptionCommand

VALIDATION_DELAY = timedelta(seconds=15)
"""How long a graceful command waits before it is validated, so that it does not act on a passing state (DIS-46)."""
MARGIN = timedelta(seconds=2)
"""How much later the pods leave because commands take a moment to start and to taint their nodes."""
FOR_EACH = timedelta(seconds=0.25)
"""How much later they leave for each command. One command after another is validated on the whole cluster."""


def leaving_together(commands: Sequence[DisruptionCommand], now: datetime) -> list[DisruptionCommand]:
    """Return the commands of one pass, with the time from which on those that launch nothing evict their pods.

    The others take longer anyway, until their new nodes are ready.
    """
    ready = [
        command.id for command in commands if command.graceful and not command.replacements and command.approval is None
    ]
    if len(ready) < 2:
        return list(commands)
    at = now + VALIDATION_DELAY + MARGIN + len(ready) * FOR_EACH
    return [evolve(command, leaves_from=at) if command.id in ready else command for command in commands]
