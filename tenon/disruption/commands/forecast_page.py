"""What consolidation would do next, in sentences: for the disruption workflow's page and for `tenon simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tenon.apis.reasons import camel_case
from tenon.kube.timestamps import time_text
from tenon.messages.forecast import ConsolidationForecast, ForecastCommand, ForecastNode, LeavingNode
from tenon.money import per_hour
from tenon.sentences import counted, first_few, for_temporal_ui, lasting, shortened

LISTED_NODES = 3
"""How many new nodes a line names."""
LISTED_POOLS = 3
"""How many NodePools a line names."""
MAX_CLAUSE = 300
"""How many letters a line has of why a NodePool is frozen, of which a person wrote the most."""
NOTHING_ENDS = (
    "Next consolidation: none, unless something changes. Nothing that keeps the nodes ends by itself. Pauses after "
    "commands that failed or saved too little do, and this forecast does not know their ends"
)
FORECAST = (
    "Says what consolidation would do next, and when, if nothing changes until then, and which NodePools are frozen, "
    "by whom and until when. It takes no input and changes nothing. Current Details show the answer."
)
"""The description of the update."""
ENDING_A_FREEZE = (
    "- To end a freeze earlier: `tenon resume NODEPOOL` for a pause, else `kubectl delete disruptionfreeze NAME`"
)
NO_ANSWER = (
    "The worker gave no forecast within two minutes. See whether a worker runs and leads, and send the update again"
)
"""What an operator hears if the planner fails."""


def next_consolidation_text(at: datetime, wait: timedelta, *, acts: bool, at_the_latest: bool = False) -> str:
    """Say when consolidation would act, before a list of what it would do, or when all waits are over without a move.

    Args:
        at: the time.
        wait: how long it is until then.
        acts: whether it would do something.
        at_the_latest: whether it may act earlier.
    """
    when = f"{time_text(at)} (in {lasting(wait)})"
    if acts:
        latest = "at the latest " if at_the_latest else ""
        return f"Next consolidation: {latest}{when}, if nothing changes until then:"
    return (
        f"Next consolidation: none, unless something changes. All waits are over by {when}, and no move saves money "
        "then"
    )


def lines(forecast: ConsolidationForecast, most: int | None = None) -> list[str]:
    """Return the forecast as lines of Markdown.

    ``most``: how many commands and frozen NodePools have a line; by default, all that it lists.
    """
    text_lines = [_introduction(forecast), *map(_command, forecast.commands[:most])]
    if more := forecast.more_commands + _left_out(forecast.commands, most):
        text_lines.append(f"- and {counted(more, 'more command')}")
    if forecast.is_cut:
        text_lines.append("The search used up its time, so there may be more.")
    frozen = list(forecast.frozen.items())
    text_lines += [f"- NodePool {pool} is {shortened(clause, MAX_CLAUSE)}" for pool, clause in frozen[:most]]
    if more := forecast.more_frozen + _left_out(frozen, most):
        text_lines.append(f"- and {counted(more, 'more NodePool')} {'is' if more == 1 else 'are'} frozen")
    if frozen:
        text_lines.append(ENDING_A_FREEZE)
    return [for_temporal_ui(line) for line in text_lines]


def _left_out(entries: Sequence[object], most: int | None) -> int:
    return 0 if most is None else max(0, len(entries) - most)


def _introduction(forecast: ConsolidationForecast) -> str:
    if forecast.at is None:
        return f"{NOTHING_ENDS}."
    if forecast.at == forecast.asked_at:
        return "Next consolidation: now, within seconds:"
    text = next_consolidation_text(
        forecast.at,
        forecast.at - forecast.asked_at,
        acts=bool(forecast.commands),
        at_the_latest=forecast.at_the_latest,
    )
    return text if forecast.commands else f"{text}."


def _command(command: ForecastCommand) -> str:
    number = len(command.nodes) + command.more_nodes
    named_nodes = [_leaving(name, command.leaving.get(name)) for name in command.nodes]
    names = first_few([*named_nodes, *[""] * command.more_nodes], len(named_nodes))
    nodes = f"{counted(number, 'node')} of NodePool {first_few(command.pools, LISTED_POOLS)}: {names}"
    does = f"removes {nodes}"
    if command.replacements:
        does = f"replaces {nodes}, with {first_few(list(map(_node, command.replacements)), LISTED_NODES)}"
    approval = "; it waits for approval first" if command.awaits_approval else ""
    return f"- {camel_case(command.reason)}: {does}; {_money(command.saving)}{approval}"


def _money(saving: float | None) -> str:
    if saving is None:
        return "what it saves is not known, because a price is not known"
    return f"saves {per_hour(saving)}" if saving >= 0 else f"costs {per_hour(-saving)} more"


def _leaving(name: str, node: LeavingNode | None) -> str:
    if node is None:
        return name
    price = f"{per_hour(node.price)}, " if node.price else ""
    return f"{name} ({node.instance_type}, {node.capacity_type}, {node.zone}, {price}{counted(node.pods, 'pod')})"


def _node(node: ForecastNode) -> str:
    return f"{node.instance_type} ({node.capacity_type}, {node.zone}, {per_hour(node.price)})"
