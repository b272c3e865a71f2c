"""What comes: expiries, drift, limits. And what waits now: pods without a node, nodes that cannot leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenon.fleet.rows import NodeRow
from tenon.fleet.summary import reasons_of
from tenon.money import per_hour
from tenon.page.charts import ChartColumn, column_chart
from tenon.page.markup import Content, tag, with_code
from tenon.page.style import OTHERS, PALETTE
from tenon.page.table import side_by_side, table
from tenon.page.time_axis import axis_of
from tenon.report.ahead import EXPIRIES, Ahead, Expiry, LimitUse
from tenon.report.live import LiveCluster
from tenon.report.sections.nodes import legend
from tenon.report.sections.texts import moment
from tenon.resources import NODES, format_quantity
from tenon.sentences import counted, first_few, lasting, shortened

NAMES = 3
WAITS = 200
"""The most characters of what something waits for."""
EXPIRY_BUCKETS = 28


def waiting_section(cluster: LiveCluster) -> Content:
    """Return pods without a node and why, nodes that leave or are blocked, commands, freezes, schedules, rollouts."""
    fleet = cluster.fleet
    leaving = [row for row in fleet.rows if row.stage.leaving or row.is_blocked]
    parts: list[Content] = []
    if fleet.pending_pods:
        rows = [(str(len(keys)), why or "not tried yet", first_few(keys, NAMES)) for why, keys in _reasons(cluster)]
        parts += [
            tag("h3", f"Pods without a node ({len(fleet.pending_pods)})"),
            table(("Pods", "Why", "Which"), rows, {0}),
        ]
    if leaving:
        parts += [
            tag("h3", f"Nodes that leave or need attention ({len(leaving)})"),
            table(("Node", "Stage", "Age", "Pods", "Why"), [_leaving_row(row, cluster) for row in leaving], {2, 3}),
        ]
    if fleet.commands:
        commands = [
            (
                command.reason,
                first_few(command.nodes, NAMES),
                first_few(command.replacements, NAMES) or "no new node",
                "" if command.saving is None else f"{per_hour(command.saving)}",
                shortened(command.waits, WAITS),
            )
            for command in fleet.commands
        ]
        parts += [
            tag("h3", f"Disruption commands under way ({len(fleet.commands)})"),
            table(("Reason", "Removes", "Replacements", "Saves", "Now"), commands, {3}),
        ]
    if fleet.frozen:
        frozen = [(first_few(item.pools, NAMES), shortened(item.clause, WAITS)) for item in fleet.frozen]
        parts += [
            tag("h3", f"Frozen NodePools ({sum(len(item.pools) for item in fleet.frozen)})"),
            table(("NodePools", "Why, and until when"), frozen),
        ]
    if fleet.scheduled:
        scheduled = [(item.pool, shortened(item.clause, WAITS)) for item in fleet.scheduled]
        parts += [
            tag("h3", f"NodePools by schedule ({len(fleet.scheduled)})"),
            table(("NodePool", "What holds, and until when"), scheduled),
        ]
    if fleet.rollouts:
        rollouts = [
            (item.pool, item.rollout, item.phase, item.wave, shortened(item.message, WAITS)) for item in fleet.rollouts
        ]
        parts += [
            tag("h3", f"Rollouts of node versions ({len(fleet.rollouts)})"),
            table(("NodePool", "NodeRollout", "Phase", "Wave", "Now"), rollouts),
        ]
    return parts or tag("p", "Every pod has a node, and no node is leaving.", class_="quiet")


def _reasons(cluster: LiveCluster) -> Sequence[tuple[str, list[str]]]:
    return reasons_of(cluster.fleet.pending_pods)


def _leaving_row(row: NodeRow, cluster: LiveCluster) -> Sequence[Content]:
    lines = cluster.blocked_texts.get(row.claim, "").splitlines()
    why = [tag("div", with_code(line)) for line in (row.why, *lines) if line]
    return row.name, row.stage.value, lasting_age(row, cluster), str(row.pods), why


def lasting_age(row: NodeRow, cluster: LiveCluster) -> str:
    """Return the age of a node; empty if it is not known."""
    return lasting(cluster.fleet.now - row.created) if row.created is not None else ""


def coming_section(cluster: LiveCluster, ahead: Ahead) -> Content:
    """Return the expiries of the next days, drift, and limits."""
    drifts = (
        tag("h3", f"Nodes in drift ({len(ahead.drifts)})"),
        table(
            ("Node", "NodePool", "Since", "Why"),
            [(drift.node.name, drift.node.row.pool, moment(drift.since), drift.why) for drift in ahead.drifts],
        )
        if ahead.drifts
        else tag("p", "No node has drifted.", class_="quiet"),
    )
    limits = (
        tag("h3", f"NodePools near their limits ({len(ahead.limits)})"),
        table(("NodePool", "Resource", "Used", "Limit", ""), map(_limit_row, ahead.limits), {2, 3, 4})
        if ahead.limits
        else tag("p", "No NodePool uses 80% of a limit.", class_="quiet"),
    )
    return (
        tag("h3", f"Expiries in the next 7 days ({len(ahead.expiries)})"),
        _expiries(cluster, ahead.expiries),
        side_by_side(drifts, limits),
    )


def _expiries(cluster: LiveCluster, expiries: Sequence[Expiry]) -> Content:
    if not expiries:
        return tag("p", "No node expires.", class_="quiet")
    now = cluster.fleet.now
    axis = axis_of(now, now + EXPIRIES, EXPIRY_BUCKETS)
    pools = [pool for pool, _ in Counter(expiry.node.row.pool for expiry in expiries).most_common()]
    colors = {pool: PALETTE[rank] if rank < len(PALETTE) else OTHERS for rank, pool in enumerate(pools)}
    by_bucket: dict[int, Counter[str]] = {}
    for expiry in expiries:  # what has expired already and waits is in the first bucket
        bucket = axis.bucket(max(expiry.at, now))
        if bucket is not None:
            by_bucket.setdefault(bucket, Counter())[expiry.node.row.pool] += 1
    columns = []
    for number in range(axis.count):
        counts = by_bucket.get(number, Counter())
        texts = ", ".join(f"{counts[pool]} of {pool}" for pool in pools if counts[pool])
        title = f"from {moment(axis.start_of(number))}: {texts}" if texts else ""
        columns.append(ChartColumn([(float(counts[pool]), colors[pool]) for pool in pools if counts[pool]], (), title))
    caption = f"Nodes that expire in each {lasting(axis.length)}"
    rows = [
        (moment(expiry.at), expiry.node.name, expiry.node.row.pool, counted(expiry.node.row.pods, "pod"))
        for expiry in expiries
    ]
    return (
        column_chart(axis, columns, caption, lambda value: f"{value:g}"),
        legend((pool or "no NodePool", colors[pool]) for pool in pools),
        table(("Expires", "Node", "NodePool", "Pods"), rows, {3}, 12),
    )


def _limit_row(use: LimitUse) -> Sequence[Content]:
    amounts = (
        (str(use.used), str(use.limit))
        if use.resource == NODES
        else (format_quantity(use.resource, use.used), format_quantity(use.resource, use.limit))
    )
    return use.pool, use.resource, *amounts, f"{use.share:.0%}"
