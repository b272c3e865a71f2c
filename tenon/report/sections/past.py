"""What the record says: cost over time, launches, removals, refusals, interruptions, commands, and who did it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from tenon.apis.reasons import camel_case
from tenon.money import per_hour, price_text, sum_text
from tenon.page.charts import ChartColumn, Reference, area_chart, column_chart
from tenon.page.markup import Content, Markup, tag
from tenon.page.style import OTHERS, PALETTE
from tenon.page.table import side_by_side, table
from tenon.record.entries import LaunchEntry, RemovalEntry
from tenon.record.removals import pod_names
from tenon.report.happened import Carried, EntryGroup, Happened
from tenon.report.report import Past
from tenon.report.sections.nodes import legend
from tenon.report.sections.texts import axis_money, moment, window_text
from tenon.sentences import counted, first_few, lasting, shortened

LAUNCHED = "var(--accent)"
NAMES = 3
WHY = 160
_LAUNCHED = ("NodePool", "Capacity", "Type", "Launches", "Price an hour")
_REMOVALS = ("Time", "Node", "Reason", "Who", "Pods", "Cost")


def cost_section(past: Past) -> Content:
    """Return the cost over time, and by NodePool."""
    now, bound = past.whole.until, past.lower_bound
    axis = past.cost_axis
    titles = [
        f"{moment(axis.start_of(number))}: {'no data' if value is None else per_hour(value)}{_bound_text(least)}"
        for number, (value, least) in enumerate(zip(past.an_hour, past.lower_bounds, strict=True))
    ]
    window = window_text(past.whole.length)
    reference = Reference(past.lower_bounds, f"lower bound {price_text(bound)}") if bound is not None else None
    caption = f"Dollars an hour of nodes of NodePools in the last {window}, by their prices"
    day_costs = past.spending.by_pool(past.day.since, now)
    rows = [
        _in_windows(past, pool, sum_text(day_costs.get(pool, 0.0)), sum_text(cost))
        for pool, cost in past.spending.by_pool(past.whole.since, now).items()
    ]
    sums = _in_windows(past, "all", sum_text(past.cost(past.day.since)), sum_text(past.cost(past.whole.since)))
    return (
        area_chart(axis, past.an_hour, caption, axis_money, titles, reference),
        _cost_notes(past),
        side_by_side(
            table(
                _in_windows(past, "NodePool", "last day", f"last {window}"),
                [*rows, sums] if len(rows) != 1 else rows,
                {1, 2},
            ),
            _by_namespace(past, window),
        ),
    )


def _bound_text(bound: float | None) -> str:
    return "" if bound is None else f", lower bound {price_text(bound)}"


def _by_namespace(past: Past, window: str) -> Content:
    whole = sum(past.by_namespace.values())
    if not whole:
        return None
    rows = [(name, sum_text(cost), f"{cost / whole:.0%}") for name, cost in past.by_namespace.items()]
    return table(("Namespace", f"last {window}", "Share"), rows, {1, 2}, 15)


def _cost_notes(past: Past) -> Content:
    notes = []
    if past.recorded_since is not None and past.recorded_since > past.whole.since:
        notes.append(f"Nothing is recorded from before {moment(past.recorded_since)}")
    if unpriced := past.spending.unpriced:
        notes.append(f"{counted(unpriced, 'node')} without a known price count as free")
    if lost := past.spending.bill.endless:
        notes.append(
            f"{counted(len(lost), 'instance')} whose launch is in the record, without a node or a removal, "
            f"{'counts' if len(lost) == 1 else 'count'} as a minute: {first_few(lost, NAMES)}"
        )
    return [tag("p", f"{note}.", class_="quiet") for note in notes]


def changes_section(past: Past) -> Content:
    """Return what was launched and removed, and why."""
    whole, day = past.whole, past.day
    window = window_text(whole.length)
    sums = (
        tag("h3", "Removed, by reason"),
        table(
            (*_in_windows(past, "Reason", "last day", f"last {window}"), "Pods", "Mean life", "Cost of these lives"),
            _removed_rows(past),
            {1, 2, 3, 4, 5},
        ),
        tag("h3", "Launched"),
        table(_LAUNCHED, map(_launched_row, whole.launched), {3, 4}),
        _launch_reasons(whole),
    )
    last_removals = (
        tag("h3", "The last removals"),
        table(_REMOVALS, map(_removal_row, reversed(whole.removals)), {4, 5}, 15),
    )
    return (
        tag("p", f"{_summary(day, 'day')} " if past.has_day else None, _summary(whole, window)),
        _changes_chart(past),
        side_by_side(sums, last_removals),
    )


def _summary(happened: Happened, window: str) -> str:
    savings = ""
    if any(carried.reached is not None for carried in happened.commands):
        savings = (
            f"; disruption commands saved {per_hour(happened.reached_saving)} "
            f"({price_text(happened.predicted_saving)} predicted)"
        )
    claims = happened.unlaunched
    unlaunched = f", {counted(len(claims), 'NodeClaim')} ended before launch" if claims else ""
    return (
        f"Last {window}: {counted(len(happened.launches), 'node')} launched, {len(happened.removals)} removed"
        f"{unlaunched}, {counted(len(happened.refusals), 'refusal')}{savings}."
    )


def _changes_chart(past: Past) -> Content:
    whole, axis = past.whole, past.event_axis
    ranked = [group.key[0] for group in whole.removed]
    colors = {reason: PALETTE[1 + rank] if rank < len(PALETTE) - 1 else OTHERS for rank, reason in enumerate(ranked)}
    launches: Counter[int | None] = Counter(axis.bucket(entry.at) for entry in whole.launches)
    removals: dict[int | None, Counter[str]] = defaultdict(Counter)
    for entry in whole.removals:
        removals[axis.bucket(entry.at)][camel_case(entry.reason)] += 1
    columns = []
    for number in range(axis.count):
        down = [(float(removals[number][reason]), colors[reason]) for reason in ranked if removals[number][reason]]
        reasons = ", ".join(f"{removals[number][reason]} {reason}" for reason in ranked if removals[number][reason])
        title = f"{moment(axis.start_of(number))}: {launches[number]} launched, {reasons or '0'} removed"
        up = [(float(launches[number]), LAUNCHED)] if launches[number] else []
        columns.append(ChartColumn(up, down, title if up or down else ""))
    caption = f"Nodes launched (up) and removed (down) in each {lasting(axis.length)}"
    entries = [(f"launched ({len(whole.launches)})", LAUNCHED)]
    entries += [(f"{group.key[0]} ({group.count})", colors[group.key[0]]) for group in whole.removed]
    return column_chart(axis, columns, caption, lambda value: f"{abs(value):g}"), legend(entries)


def _in_windows(past: Past, name: str, day: str, whole: str) -> tuple[str, ...]:
    """The cells of a row with a figure of the last day, unless the window is no longer than that, and of the window."""
    return (name, day, whole) if past.has_day else (name, whole)


def _removed_rows(past: Past) -> list[Sequence[Content]]:
    of_day = {group.key: group.count for group in past.day.removed}
    return [
        (
            *_in_windows(past, group.key[0], str(of_day.get(group.key, 0)), str(group.count)),
            str(group.pods),
            lasting(timedelta(seconds=group.seconds / group.count)),
            sum_text(group.dollars),
        )
        for group in past.whole.removed
    ]


def _launched_row(group: EntryGroup) -> Sequence[Content]:
    pool, capacity_type, instance_type = group.key
    mean = group.dollars / group.count
    return pool, capacity_type, instance_type, str(group.count), price_text(mean) if mean else "unknown"


def _launch_reasons(whole: Happened) -> Content:
    """What the last launches were bought for."""
    reasons = Counter(filter(None, map(_launch_reason, whole.launches)))
    if not reasons:
        return None
    return tag(
        "details",
        tag("summary", f"Why they were bought: {counted(len(reasons), 'reason')}"),
        table(
            ("Why", "Launches"), ((shortened(why, WHY), str(count)) for why, count in reasons.most_common()), {1}, 20
        ),
    )


def _launch_reason(entry: LaunchEntry) -> str:
    return "; ".join(entry.why.lines) or (f"wanted by {entry.actor}" if entry.actor else "")


def _removal_row(entry: RemovalEntry) -> Sequence[Content]:
    reason = f"{camel_case(entry.reason)}: {shortened(entry.detail, WHY)}" if entry.detail else camel_case(entry.reason)
    name = entry.facts.node or entry.facts.claim
    return moment(entry.at), name, reason, entry.actor, str(entry.pods), sum_text(entry.cost)


def drains_section(past: Past) -> Content:
    """Return the drains that had to wait and have ended, and for what."""
    whole = past.whole
    if not whole.blocked_drains:
        return tag("p", "No drain that ended had to wait for pods that could not be evicted.", class_="quiet")
    window = window_text(whole.length)
    of_day = {group.key: group.count for group in past.day.drain_blockers}
    causes = [
        (
            *_in_windows(past, group.key[0], str(of_day.get(group.key, 0)), str(group.count)),
            str(group.pods),
            lasting(timedelta(seconds=group.seconds)),
            moment(group.last_at),
        )
        for group in whole.drain_blockers
    ]
    drains = [
        (
            moment(block.since),
            entry.facts.node or entry.facts.claim,
            block.cause,
            pod_names(block),
            lasting(timedelta(seconds=block.seconds)),
            camel_case(entry.reason),
        )
        for entry, block in whole.blocked_drains
    ]
    return side_by_side(
        (
            tag("h3", "What they waited for"),
            table(
                (*_in_windows(past, "Cause", "last day", f"last {window}"), "Pods", "In all", "Last"),
                causes,
                {1, 2, 3, 4} if past.has_day else {1, 2, 3},
                15,
            ),
        ),
        (
            tag("h3", "The longest waits"),
            table(("From", "Node", "Cause", "Pods", "For", "Why it left"), drains, {4}, 15),
        ),
    )


def trouble_section(past: Past) -> Content:
    """Return refusals of EC2 and interruptions."""
    whole = past.whole
    refusals = (
        tag("h3", f"Refused launches ({len(whole.refusals)})"),
        _table_or(
            "EC2 refused no launch.",
            ("Code", "Offering", "Refusals", "Last"),
            [(group.key[0], group.key[1], str(group.count), moment(group.last_at)) for group in whole.refused],
            {2},
        ),
    )
    interruptions = (
        tag("h3", f"Interruptions ({len(whole.interruptions)})"),
        _table_or(
            "EC2 ended no instance.",
            ("Time", "Node", "Type", "Notice", "Pods"),
            [
                (
                    moment(entry.at),
                    entry.facts.node or entry.facts.claim,
                    f"{entry.facts.instance_type}, {entry.facts.capacity_type}, {entry.facts.zone}",
                    camel_case(entry.reason),
                    str(entry.pods),
                )
                for entry in reversed(whole.interruptions)
            ],
            {4},
        ),
    )
    return side_by_side(refusals, interruptions)


def commands_section(past: Past) -> Content:
    """Return disruption commands with the saving that they predicted and reached, and who did what."""
    whole = past.whole
    titles = ("Time", "Reason", "Nodes", "For", "Predicted", "Reached", "Outcome")
    actors = [(*group.key, str(group.count), moment(group.last_at)) for group in whole.actors]
    commands = (
        tag("h3", f"Disruption commands ({len(whole.commands)})"),
        _table_or("No disruption command ran.", titles, list(map(_command_row, reversed(whole.commands))), {4, 5}, 25),
    )
    deeds = (
        tag("h3", "Who did what"),
        _table_or("Nothing happened.", ("Who", "What", "Times", "Last"), actors, {2}),
    )
    return side_by_side(commands, deeds)


def _command_row(carried: Carried) -> Sequence[Content]:
    start = carried.start
    nodes = [candidate.node or candidate.claim for candidate in start.candidates] if start is not None else []
    if not nodes and carried.end is not None:
        nodes = [*carried.end.accepted, *carried.end.refused]
    bought = start.replacements if start is not None else []
    types: Mapping[str, int] = Counter(purchase.instance_type for purchase in bought)
    new = ", ".join(f"{count} {kind}" for kind, count in types.items()) or ("no node" if start is not None else "")
    return (
        moment(carried.at),
        carried.reason,
        first_few(nodes, NAMES),
        new,
        _saving(carried.predicted),
        _saving(carried.reached),
        shortened(carried.outcome, WHY),
    )


def _saving(dollars: float | None) -> str:
    return "" if dollars is None else price_text(dollars)


def _table_or(
    text: str,
    titles: Sequence[str],
    rows: Sequence[Sequence[Content]],
    figures: set[int],
    most: int = 20,
) -> Markup:
    return table(titles, rows, figures, most) if rows else tag("p", text, class_="quiet")


PastSection = Callable[[Past], Content]
PAST: tuple[tuple[str, PastSection], ...] = (
    ("Launched and removed", changes_section),
    ("Drains that had to wait", drains_section),
    ("Refusals and interruptions", trouble_section),
    ("Commands and actors", commands_section),
)
"""The sections about the past, with their titles. The cost has a section of its own."""
