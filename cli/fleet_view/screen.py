"""The whole screen as lines: totals above, rows with a cursor, notes and keys below."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from cli.fleet_view.layout import Layout, append_bar, fit, layout, percent, share_style, short_name
from cli.fleet_view.view_state import Mode, ViewState, why_unreadable
from tenon.fleet.document import Fleet
from tenon.fleet.order import GroupBy, RowGroup, grouped, ordered, parse_filter
from tenon.fleet.rows import NodeRow
from tenon.fleet.summary import CommandSummary, FrozenPools, OpenRollout, PoolSchedule, Totals, reasons_of, totals
from tenon.money import per_hour, sum_text
from tenon.sentences import counted, first_few

CURSOR = "bold on grey30"
SHOWN_REASONS = 3
SHOWN_COMMANDS = 3
SHOWN_HOLDS = 2
"""How many freezes, and how many rollouts, have a line of their own on a terminal."""
LABEL = 9
"""Characters before what a line of the summary says, such as its kind."""
ONCE_LINES = 12
"""How many lines each of them takes where nothing scrolls away."""
KEYS = "c m $ a n p sort  g group  / filter  ↑↓ select  ⏎ show  d drain  k keep  q quit"
SHORT_KEYS = "c m $ a n p sort  g group  / filter  ⏎ show  d drain  k keep  q quit"


def visible_rows(fleet: Fleet, state: ViewState) -> list[NodeRow]:
    """Return the rows that the filter leaves, in order, group by group: the order in which the cursor moves."""
    text = "" if why_unreadable(state.filter) else state.filter  # it is being typed
    rows = ordered(filter(parse_filter(text), fleet.rows), state.sort, reverse=state.is_reversed)
    return [row for group in grouped(rows, state.group) for row in group.rows]


def screen(fleet: Fleet, state: ViewState, rows: Sequence[NodeRow], width: int, height: int) -> list[Text]:
    """Return exactly ``height`` lines, none longer than ``width``.

    Args:
        fleet: what is shown.
        state: sort, filter, cursor and mode.
        rows: the result of `visible_rows`.
        width: of the terminal.
        height: of the terminal.
    """
    above = summary(fleet, rows, width)
    if len(above) > height // 2:  # nodes are what people look for
        above = summary(fleet, rows, width, most_lines=1)
    below = _footer(fleet, state, rows, width)
    if state.mode is Mode.DETAIL:
        above = [above[0], Text()]
        body = _page([Text(line) for line in state.detail], state.scroll, height - len(above) - len(below))
    else:
        body = _table(fleet.now, state, rows, width, height - len(above) - len(below))
    lines = [*above, *body][: max(0, height - len(below))]
    lines += [Text() for _ in range(height - len(lines) - len(below))]
    return [_cut(line, width) for line in (*lines, *below)][:height]


def table_lines(fleet: Fleet, rows: Sequence[NodeRow], group: GroupBy, width: int | None) -> list[Text]:
    """Return the summary and all rows, for output that is printed once. Without ``width`` nothing is cut."""
    chosen_layout = layout(rows, fleet.now, width, group)
    body = [chosen_layout.header()] if rows else [Text("No nodes.")]
    for part in grouped(rows, group):
        if part.name:
            body.append(_group_line(part))
        body += [chosen_layout.line(row, fleet.now) for row in part.rows]
    notes = [Text(f"{note}.", "dim") for note in fleet.notes]
    if width is not None:
        notes = [part for note in notes for part in _wrapped(note, width, 0, ONCE_LINES)]
    lines = [*summary(fleet, rows, width, ONCE_LINES), *body, *notes]
    return [_cut(line, width) if width is not None else line for line in lines]


def summary(fleet: Fleet, rows: Sequence[NodeRow], width: int | None, most_lines: int = 2) -> list[Text]:
    """Return totals, what pending pods wait for, commands under way, freezes, schedules and rollouts.

    Each takes at most so many lines of the terminal: what it waits for stands at its end.
    """
    sums = totals(rows)
    length = 0 if width is None else max(5, min(30, (width - 44) // 2))
    lines = [totals_line(sums, len(fleet.pending_pods)), amounts_line(sums, length)]
    reasons = reasons_of(fleet.pending_pods)
    shown = reasons if width is None else reasons[:SHOWN_REASONS]
    for why, keys in shown:
        text = Text("pending  ", "yellow")
        text.append(f"{first_few(keys, 1)}: ", "bold")
        text.append(" ".join(why.split()) or "kube-scheduler has not said why")
        lines.append(text)
    if len(reasons) > len(shown):
        lines.append(Text(f"         and {counted(len(reasons) - len(shown), 'more reason')}: see -o json", "dim"))
    commands = fleet.commands if width is None else fleet.commands[:SHOWN_COMMANDS]
    lines += [_command_line(command, width) for command in commands]
    if len(fleet.commands) > len(commands):
        lines.append(Text(f"         and {counted(len(fleet.commands) - len(commands), 'more command')}", "dim"))
    lines += _first_lines([_frozen_line(frozen) for frozen in fleet.frozen], width, "more freeze")
    lines += _first_lines([_scheduled_line(item) for item in fleet.scheduled], width, "more scheduled NodePool")
    lines += _first_lines([_rollout_line(rollout) for rollout in fleet.rollouts], width, "more rollout")
    if most_lines > 1:  # a small terminal has no line for it
        lines += left_out_lines(sums)
    if width is not None:
        first, *rest = lines
        others = [part for line in rest for part in _wrapped(line, width, LABEL, most_lines)]
        lines = [*_wrapped(first, width, 0, most_lines), *others]
    return [*lines, Text()]


def _wrapped(line: Text, width: int, indent: int, most: int) -> list[Text]:
    """Wrap a line between words. What follows is indented, and cut after so many lines."""
    if line.cell_len <= width or width <= indent + 1:
        return [line]
    label, text = line.divide([indent]) if indent else (Text(), line)
    parts = list(text.wrap(Console(width=width), width - indent))
    if len(parts) > most:
        parts = parts[:most]
        parts[-1].rstrip()
        parts[-1].append(" …")
    for part in parts:
        part.rstrip()
    return [Text.assemble(label if number == 0 else " " * indent, part) for number, part in enumerate(parts)]


def _first_lines(lines: Sequence[Text], width: int | None, noun: str) -> list[Text]:
    shown = list(lines if width is None else lines[:SHOWN_HOLDS])
    rest = len(lines) - len(shown)
    return [*shown, *([Text(f"         and {counted(rest, noun)}", "dim")] if rest else [])]


def _frozen_line(frozen: FrozenPools) -> Text:
    line = Text("frozen   ", "blue")
    line.append(f"NodePool {first_few(frozen.pools, 2)}", "bold")
    line.append(f": {frozen.cause}")
    return line


def _scheduled_line(scheduled: PoolSchedule) -> Text:
    line = Text("schedule ", "bright_black" if scheduled.holds == "off" else "cyan")
    line.append(f"NodePool {scheduled.pool}", "bold")
    line.append(f": {scheduled.clause}")
    return line


def _rollout_line(rollout: OpenRollout) -> Text:
    line = Text("rollout  ", "magenta")
    line.append(f"NodePool {rollout.pool}", "bold")
    wave = f", wave {rollout.wave}" if rollout.wave else ""
    line.append(f" {rollout.phase}{wave}, by NodeRollout {rollout.rollout}")
    line.append(f": {rollout.message}" if rollout.message else "")
    return line


def totals_line(sums: Totals, pending: int = 0) -> Text:
    """Return how many nodes and pods there are, and what the nodes cost."""
    line = Text()
    line.append(counted(sums.nodes, "node"), "bold")
    line.append(f" ({sums.ready} ready)" if sums.ready != sums.nodes else "")
    line.append(f"  {counted(sums.pods, 'pod')}")
    if pending:
        line.append(f"  {pending} pending", "yellow")
    line.append(f"  {per_hour(sums.cost)}", "bold")
    line.append(f"  {sum_text(sums.monthly_cost)}/month")
    line.append(f"  spot {sums.spot_share:.0%}", "magenta")
    if sums.unpriced:
        line.append(f"  {sums.unpriced} without a price", "yellow")
    return line


def left_out_lines(sums: Totals) -> list[Text]:
    """Return a line about what the totals leave out, if there is anything."""
    return [Text(f"not counted: {sums.left_out}", "dim")] if sums.left_out else []


def amounts_line(sums: Totals, length: int = 0) -> Text:
    """Return requests over what is allocatable, with bars of this length."""
    line = Text()
    amounts = (
        ("CPU", sums.cpu_share, f"{sums.cpu_requests / 1000:,.0f}/{sums.cpu / 1000:,.0f}"),
        ("Memory", sums.memory_share, f"{sums.memory_requests / 2**30:,.0f}/{sums.memory / 2**30:,.0f}Gi"),
    )
    for number, (name, share, amount) in enumerate(amounts):
        line.append(f"{'   ' if number else ''}{name} ")
        if length:
            append_bar(line, share, length, share_style(share))
            line.append(" ")
        line.append(f"{percent(share)} {amount}")
    return line


def _command_line(command: CommandSummary, width: int | None) -> Text:
    short = str if width is None else short_name
    line = Text("command  ", "cyan")
    line.append(command.reason or command.id, "bold")
    if command.saving is not None:
        line.append(f" {'saves' if command.saving >= 0 else 'costs'} {per_hour(abs(command.saving))}", "green")
    line.append(f": {first_few([short(name) for name in command.nodes], 2)}")
    if command.replacements:
        line.append(f" -> {first_few([short(name) for name in command.replacements], 2)}")
    line.append(f"; {command.waits}" if command.waits else "", "dim")
    return line


def _group_line(group: RowGroup) -> Text:
    sums = group.totals
    line = Text(group.name, "bold underline")
    line.append(
        f"  {counted(sums.nodes, 'node')}  CPU {percent(sums.cpu_share)}  memory {percent(sums.memory_share)}"
        f"  {per_hour(sums.cost)}  spot {sums.spot_share:.0%}"
        + (f"  not counted: {sums.left_out}" if sums.left_out else ""),
        "not underline not bold dim",
    )
    return line


def _table(now: datetime, state: ViewState, rows: Sequence[NodeRow], width: int, height: int) -> list[Text]:
    """The rows around the cursor. Only these are laid out, so that a large cluster costs no more than a small one."""
    if height <= 1:
        return []
    if not rows:
        why = f"No node matches {state.filter}: Esc shows all." if state.filter else "No nodes."
        return [Text(why, "yellow")]
    cursor = state.position(rows)
    entries: list[RowGroup | int] = []
    for group in grouped(rows, state.group):
        if group.name:
            entries.append(group)
        first = sum(isinstance(entry, int) for entry in entries)
        entries += range(first, first + len(group.rows))
    place = entries.index(cursor)
    room = height - 1
    start = max(0, min(place - room // 2, len(entries) - room))
    window = entries[start : start + room]
    shown_rows = [rows[entry] for entry in window if isinstance(entry, int)]
    chosen_layout: Layout = layout(shown_rows, now, width, state.group)
    lines = [chosen_layout.header()]
    for entry in window:
        if isinstance(entry, RowGroup):
            lines.append(_group_line(entry))
            continue
        line = chosen_layout.line(rows[entry], now)
        if entry == cursor:
            line.pad_right(max(0, width - line.cell_len))
            line.stylize(CURSOR)
        lines.append(line)
    return lines


def _page(lines: Sequence[Text], scroll: int, height: int) -> list[Text]:
    start = max(0, min(scroll, len(lines) - height))
    return list(lines[start : start + max(0, height)])


def _footer(fleet: Fleet, state: ViewState, rows: Sequence[NodeRow], width: int) -> list[Text]:
    lines = [Text(f"{note}.", "dim") for note in fleet.notes]
    if rows and state.mode is Mode.LIST:
        lines.insert(0, _cursor_line(rows[state.position(rows)]))
    if state.mode is Mode.FILTER:
        lines.append(Text.assemble(("filter: ", "bold"), state.filter, "▏", ("  ⏎ keep  Esc clear", "dim")))
    elif state.mode is Mode.CONFIRM:
        lines.append(Text(f"y/n  {state.question}", "bold yellow"))
    elif state.mode is Mode.REASON:
        lines.append(Text.assemble(("why: ", "bold"), state.reason, "▏", ("  ⏎ do it  Esc do nothing", "dim")))
    elif state.message:
        lines.append(Text(state.message, "bold"))
    if state.mode is Mode.DETAIL:
        lines.append(Text("↑↓ scroll  Esc back  d drain  k keep  q quit", "dim"))
    elif state.mode is Mode.LIST:
        where = f"  sorted by {state.sort.value}" + (f"  filter {state.filter}" if state.filter else "")
        keys = KEYS if len(KEYS) + len(where) <= width else SHORT_KEYS
        lines.append(Text(fit(keys + (where if len(keys) + len(where) <= width else ""), width), "dim"))
    return lines


def _cursor_line(row: NodeRow) -> Text:
    """What keeps or removes the node with the cursor: few terminals are wide enough for a column with it."""
    line = Text(short_name(row.name), "bold")
    line.append(f"  {row.disruption.value}{f': {row.why}' if row.why else ''}", "not bold")
    return line


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    line.no_wrap, line.end = True, ""
    return line
