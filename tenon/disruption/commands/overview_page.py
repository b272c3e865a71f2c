"""The page of the disruption workflow in Temporal's UI: what it waits for, and which commands hold which nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

from tenon.apis.reasons import camel_case
from tenon.disruption.commands import forecast_page
from tenon.disruption.commands.command_page import ANSWER
from tenon.evolve import evolve
from tenon.kube.timestamps import time_text
from tenon.messages.disruption import OpenCommand, PoolSavings, RecentCommand
from tenon.messages.forecast import ConsolidationForecast
from tenon.money import per_hour
from tenon.node import ids
from tenon.sentences import counted, first_few, for_temporal_ui, shortened

LISTED = 10
"""How many commands or nodes a section lists."""
NAMED_NODES = 5
"""How many nodes of a command the page names."""
REMEMBERED = 10
"""How many of the last commands the workflow remembers."""
MAX_ACTION = 150
"""How many letters the page has of what one of the last commands does, without its workflow ID."""
MAX_END = 100
"""The same of how it ended."""
MAX_PAGE = 7500
"""The length of the page in a URL, up to which it has more of a forecast: proxies refuse those over 8 KB."""
_OF_FORECASTS = (10, 5, 3, 2, 1)
"""How many commands and frozen NodePools of a forecast the page has, from the most to the least."""
WHY = (
    "Nodes leave when they are empty, underutilized, drifted or unhealthy, within the budgets of their NodePool. Each "
    "command runs in a workflow of its own."
)
ABOUT = f"""This workflow decides which nodes of the cluster leave. {WHY} Current Details list them.

Its signals come from Tenon. The update `forecast` says what consolidation would do next. A command that waits for \
approval needs you: Current Details say what to send to it. If you terminate this workflow, Tenon \
starts it again within a minute."""


def headline(cluster: str, open_commands: Mapping[str, OpenCommand]) -> str:
    """Say in one line what the workflow does, and how much of it is under way."""
    nodes = [claim for claim, entry in open_commands.items() if _is_used(entry) and not entry.ended]
    commands = {open_commands[claim].command for claim in nodes}
    waiting = len({entry.command for entry in open_commands.values() if entry.awaits_approval})
    parts = [f"{counted(len(commands), 'command')} for {counted(len(nodes), 'node')} under way"] if nodes else []
    if waiting:
        parts.append(f"{counted(waiting, 'command')} {'waits' if waiting == 1 else 'wait'} for approval")
    return f"Decides which nodes of cluster {cluster} leave{': ' if parts else ''}{', '.join(parts)}"


def remembered(
    commands: Sequence[RecentCommand], now: datetime, action: str, workflow_id: str, expected: str = ""
) -> list[RecentCommand]:
    """Return the last commands with one that starts now. ``expected``: what it is to save, in a clause."""
    text = shortened(f"`{now:%Y-%m-%d %H:%M:%S}` {action}", MAX_ACTION)
    return [*commands, RecentCommand(text=text, workflow_id=workflow_id, outcome=expected)][-REMEMBERED:]


def with_end(commands: Sequence[RecentCommand], workflow_id: str, end: str) -> list[RecentCommand]:
    """Return the last commands, with how one of them ended in place of what it was to save."""
    outcome = shortened(end, MAX_END)
    return [evolve(command, outcome=outcome) if command.workflow_id == workflow_id else command for command in commands]


def _command_line(command: RecentCommand) -> str:
    outcome = f": {command.outcome}" if command.outcome else ""
    return f"- {command.text} (workflow {command.workflow_id}){outcome}"


def _is_used(entry: OpenCommand) -> bool:
    """Whether budgets count the node because of the command."""
    return not (entry.postponed or entry.awaits_approval)


def current_details(
    cluster: str,
    open_commands: Mapping[str, OpenCommand],
    savings: Mapping[str, PoolSavings],
    recent_commands: Sequence[RecentCommand],
    forecast: ConsolidationForecast | None = None,
) -> str:
    """Render the page as Markdown. ``forecast``: what consolidation would do next, if somebody asked."""
    text = ""
    for most in _OF_FORECASTS if forecast is not None else (0,):
        text = _page(cluster, open_commands, savings, recent_commands, _forecast(forecast, most))
        if len(quote(text)) <= MAX_PAGE:
            break
    return text


def _page(
    cluster: str,
    open_commands: Mapping[str, OpenCommand],
    savings: Mapping[str, PoolSavings],
    recent_commands: Sequence[RecentCommand],
    forecast_lines: Sequence[str],
) -> str:
    waiting = {claim: entry for claim, entry in open_commands.items() if entry.awaits_approval}
    refused = {claim: entry for claim, entry in open_commands.items() if entry.refused}
    used = {claim: entry for claim, entry in open_commands.items() if _is_used(entry)}
    under_way = {claim: entry for claim, entry in used.items() if not entry.ended}
    leaving = {claim: entry for claim, entry in used.items() if entry.ended}
    postponed = {claim: entry for claim, entry in open_commands.items() if entry.postponed and not entry.refused}
    lines = [
        f"### {headline(cluster, open_commands)}",
        "",
        f"**Now:** it waits until {'another' if waiting else 'a'} node may leave. `tenon explain node NAME` says what "
        "keeps a node.",
        "",
        "**What comes next:** the update `forecast` (More Actions, Send an Update) shows here what consolidation would "
        "do next, and when, and which NodePools are frozen. It takes no input and changes nothing. "
        "`tenon simulate --live --disruption` says the same, and why the other nodes stay.",
        *forecast_lines,
        *_section("Commands that wait for approval", _commands(waiting)),
        *(_answers(cluster) if waiting else []),
        *_section("Commands under way", _commands(under_way)),
        *_section("Commands that have ended, whose nodes count until they are gone", _commands(leaving)),
        *_section("Nodes that commands use of the disruption budgets", _budgets(used)),
        *_section("Nodes whose command failed, and until when they are left alone", _later(postponed)),
        *_section("Nodes whose command was refused, and until when they are left alone", _refused(refused)),
        *_section("NodePools whose consolidation saves less than predicted", _slowed(savings)),
        *_section("Last commands (UTC)", list(map(_command_line, reversed(recent_commands)))),
    ]
    if not under_way and not waiting:
        lines += ["", "No command is under way."]
    return for_temporal_ui("\n".join(lines))


def _answers(cluster: str) -> list[str]:
    """What a person can do for commands that wait for approval."""
    return [
        "",
        "They wait for you, and touch nothing until then. Run `tenon approve ID --reason TEXT` or `tenon refuse ID "
        f"--reason TEXT`, or open the workflow `{ids.command_id(cluster, 'ID')}`, which says until when it waits, and "
        f"send it the update `approve` or `refuse` with More Actions, Send an Update: `{ANSWER}`.",
    ]


def _forecast(forecast: ConsolidationForecast | None, most: int) -> list[str]:
    if forecast is None:
        return []
    title = f"Forecast, as asked at {time_text(forecast.asked_at)}"
    first, *rest = forecast_page.lines(forecast, most)
    return ["", f"#### {title}", "", first, "", *rest]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = [f"- and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return ["", f"#### {title}", "", *lines[:LISTED], *more]


def _commands(open_commands: Mapping[str, OpenCommand]) -> list[str]:
    claims: dict[str, list[str]] = {}
    for claim, entry in sorted(open_commands.items()):
        claims.setdefault(entry.command, []).append(claim)
    lines = []
    for command, names in claims.items():
        entry = open_commands[names[0]]
        awaits = ", waits for its replacement" if entry.awaits_replacement else ""
        since = f"since {time_text(entry.since)}"
        lines.append(f"- `{command}`: {camel_case(entry.reason)}, {first_few(names, NAMED_NODES)}, {since}{awaits}")
    return lines


def _budgets(open_commands: Mapping[str, OpenCommand]) -> list[str]:
    counts = Counter((entry.pool, camel_case(entry.reason)) for entry in open_commands.values())
    return [
        f"- NodePool {pool}: {counted(number, 'node')}, {reason}" for (pool, reason), number in sorted(counts.items())
    ]


def _later(open_commands: Mapping[str, OpenCommand]) -> list[str]:
    return [
        f"- {claim} until {time_text(entry.until)}: command `{entry.command}`"
        for claim, entry in sorted(open_commands.items())
    ]


def _refused(open_commands: Mapping[str, OpenCommand]) -> list[str]:
    return [
        f"- {claim} until {time_text(entry.until)}: command `{entry.command}`, {entry.refused}"
        for claim, entry in sorted(open_commands.items())
    ]


def _slowed(savings: Mapping[str, PoolSavings]) -> list[str]:
    return [
        f"- {pool}: the last {counted(saving.short, 'command')} saved {per_hour(saving.reached)} instead of "
        f"{per_hour(saving.predicted)}, measured {time_text(saving.at)}"
        for pool, saving in sorted(savings.items())
    ]
