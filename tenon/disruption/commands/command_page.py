"""The page of a disruption command in Temporal's UI: which nodes, why, what comes in their place, what it does now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis.reasons import camel_case, traits_of
from tenon.disruption.commands import cheaper_place
from tenon.kube.timestamps import time_text
from tenon.messages.base import REBOOT
from tenon.messages.command_approval import REFUSED_HOURS
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    DisruptResult,
)
from tenon.money import per_hour
from tenon.sentences import counted, first_few, for_temporal_ui, shortened

NAMED_NODES = 3
"""How many nodes a headline names."""
LISTED_NODES = 20
"""How many nodes a page lists."""
MAX_SENTENCE = 400
"""How long a sentence of the input may be."""
MAX_SEARCHED = 1500
"""How many letters the names have by which a command is found. Temporal takes 2048 bytes as a search attribute."""
ABOUT = (
    "This workflow is one disruption command: it removes, replaces or reboots the nodes of its input. Current Details "
    "say how far it is."
)
ANSWER = '{"by": "ann", "reason": "seen in staging", "ticket": "OPS-12"}'
"""An input of the updates that answer a command that waits for approval."""
_REFUSAL = '{"by": "ann", "reason": "release in progress", "hours": 48}'
APPROVE = (
    "Approves a command that waits for it. It is validated again, and then its nodes leave within the budgets. Input: "
    f"{ANSWER}."
)
REFUSE = (
    f"Refuses a command that waits for approval. Its nodes are left alone for {REFUSED_HOURS:.0f} hours, or as many as "
    f"the input says: {_REFUSAL}."
)
APPROVE_HINT, REFUSE_HINT = f"For example: {ANSWER}.", f"For example: {_REFUSAL}."
"""What a sentence about a wrong input ends with."""
_SENT = "#### What you can send"
_NEEDS_NOTHING = "It needs nothing from you: its signals come from Tenon."
_NEEDS_APPROVAL = "It waits for approval before it begins: Current Details say what to send to it, and until when."
_CANCELLATION = (
    "Request Cancellation undoes the command after its current step, unless its nodes were asked to leave already."
)


def static_details(command: DisruptionCommand) -> str:
    """Return the static details of a command's workflow."""
    needs = _NEEDS_NOTHING if command.approval is None else _NEEDS_APPROVAL
    return f"{ABOUT}\n\n{needs} {_CANCELLATION}"


def first_input(cluster: str, command: DisruptionCommand, plan_queue: str) -> DisruptInput:
    """Return the input of a command's workflow."""
    return DisruptInput(
        headline=shortened(headline(command), MAX_SENTENCE),
        why=shortened(for_temporal_ui(why(command)), MAX_SENTENCE),
        cluster=cluster,
        command=command,
        plan_queue=plan_queue,
    )


def headline(command: DisruptionCommand) -> str:
    """Say in one line what the command does and is to save: 'Underutilized: removes 1 node of NodePool web: a'."""
    saving = expected_saving(command)
    return f"{action(command)}; {saving}" if saving else action(command)


def expected_saving(command: DisruptionCommand) -> str:
    """Say in a clause what the command is to save; empty if it is not done to save, or for an empty node."""
    return for_temporal_ui(f"is to save {per_hour(command.predicted)}") if command.predicted else ""


def action(command: DisruptionCommand) -> str:
    """Say what the command does, without what it is to save."""
    number = len(command.candidates)
    names = first_few([candidate.node or candidate.claim for candidate in command.candidates], NAMED_NODES)
    pools = sorted({candidate.pool for candidate in command.candidates})
    nodes = f"{counted(number, 'node')} of NodePool {', '.join(pools)}: {names}"
    if command.decision == REBOOT:
        done = f"reboots {nodes}"
    elif command.replacements:
        replacements = first_few([replacement.name for replacement in command.replacements], NAMED_NODES)
        done = f"replaces {nodes}, with {replacements}"
    elif command.terminate_first is not None:
        done = f"removes {nodes}, before its replacement starts"
    else:
        done = f"removes {nodes}"
    return f"{camel_case(command.reason)}: {done}"


def saved(saving: float) -> str:
    """Say in a clause what a command saves now, in dollars an hour."""
    return for_temporal_ui(f"saves {per_hour(saving)}") if saving else "saves nothing"


def saving_of(command: DisruptionCommand, result: DisruptResult) -> float | None:
    """Return what a command saves that has asked its nodes to leave, in dollars an hour; None if that is not known.

    Nothing comes in the place of empty nodes. For the pods of expired ones, nodes are bought that no one has counted.
    """
    if result.saving is not None:
        return result.saving.reached
    if result.prices and traits_of(command.reason).is_consolidation:
        return sum(result.prices.values())
    return None


def end_of(command: DisruptionCommand, result: DisruptResult) -> str:
    """Say in a clause how a command ended."""
    if result.failure:
        return f"undone: {result.failure}"
    if (saving := saving_of(command, result)) is not None:
        return saved(saving)
    verb = "reboot" if command.decision == REBOOT else "leave"
    return result.replacement or f"asked {counted(len(result.accepted), 'node')} to {verb}"


def why(command: DisruptionCommand) -> str:
    """Say why the command was decided."""
    if cheaper_place.moves_to_save(command):
        return cheaper_place.of_command(command)
    if command.explanation:
        return command.explanation[0]
    if not (command.only_if_empty and command.candidates):
        return ""
    since = min(candidate.since for candidate in command.candidates)
    pods = "It has no pods" if len(command.candidates) == 1 else "They have no pods"
    return f"{pods} that need another node, since {time_text(since)}"


def searched_names(command: DisruptionCommand) -> list[str]:
    """Return the names by which people find the command: NodeClaims, their Nodes and their replacements."""
    names = [candidate.claim for candidate in command.candidates]
    names += [candidate.node for candidate in command.candidates if candidate.node]
    names += [replacement.name for replacement in command.replacements]
    length, searched = 0, []
    for name in dict.fromkeys(names):
        length += len(name)
        if length > MAX_SEARCHED:
            break
        searched.append(name)
    return searched


def current_details(
    command: DisruptionCommand,
    timeline: Sequence[str],
    waits: str,
    approve_until: datetime | None = None,
    undone: str = "",
    saving: float | None = None,
    *,
    ended: bool = False,
) -> str:
    """Render the page as Markdown.

    Args:
        command: the command.
        timeline: lines with their time.
        waits: what it does now; may be empty.
        approve_until: when it counts as refused, if it waits for a person.
        undone: why it was undone, in a clause; empty if it was not.
        saving: dollars an hour that it saves; None before that is known.
        ended: whether it can undo nothing any more, also if no one knows what it saves.
    """
    saves = expected_saving(command) if saving is None else saved(saving)
    lines = [f"### {'; '.join(filter(None, (action(command), 'undone' if undone else saves)))}", ""]
    if undone:
        lines += [f"**Undone:** {undone}", ""]
    elif waits:
        lines += [f"**Now:** it {waits}", ""]
    lines += ["#### Nodes", "", *map(_node, command.candidates[:LISTED_NODES])]
    if (more := len(command.candidates) - LISTED_NODES) > 0:
        lines.append(f"- and {more} more")
    if command.replacements:
        lines += ["", "#### What replaces them", ""]
        lines += [f"- NodeClaim {item.name} of NodePool {item.pool}" for item in command.replacements[:LISTED_NODES]]
    lines += ["", "#### Why", "", *(f"- {line}" for line in command.explanation or [why(command)] if line)]
    if timeline:
        lines += ["", "#### Timeline (UTC)", "", *(f"- {line}" for line in timeline)]
    if approve_until is not None:
        lines += ["", _SENT, "", *_approval_help(command, approve_until), _CANCELLATION]
    elif not (ended or undone or saving is not None):
        lines += ["", _SENT, "", f"{_NEEDS_NOTHING} {_CANCELLATION}"]
    return for_temporal_ui("\n".join(lines))


def _approval_help(command: DisruptionCommand, until: datetime) -> list[str]:
    return [
        f"It waits for a person until {time_text(until)}. Without an answer, it is refused then. "
        "Once approved, it is validated again, and ends without touching anything if it does not hold any more.",
        "",
        f"- `tenon approve {command.id} --reason TEXT`, or the update `approve` with More Actions, Send an Update: "
        f"`{ANSWER}`",
        f"- `tenon refuse {command.id} --reason TEXT`, or the update `refuse`, which also takes `hours`",
        "",
    ]


def _node(candidate: DisruptionCandidate) -> str:
    node = f", Node {candidate.node}" if candidate.node else ""
    price = f", {per_hour(candidate.price)}" if candidate.price else ""
    pods = f", {counted(len(candidate.pods), 'pod')} to move" if candidate.pods else ""
    since = f", since {time_text(candidate.since)}"
    return f"- NodeClaim {candidate.claim} of NodePool {candidate.pool}{node}{price}{pods}{since}"
