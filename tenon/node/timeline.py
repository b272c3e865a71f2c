"""A node's history for people: the bounded timeline, the facts of its page, and the final record."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.kube.stopped_times import runs, stopped_times
from tenon.kube.timestamps import time_text
from tenon.messages.base import TimelineEntry
from tenon.messages.launch import Instance
from tenon.money import dollars, instance_charge, nanos, per_hour
from tenon.node.drain_blockers import sentence
from tenon.node.drain_history import ended_block
from tenon.node.leave_text import removal_on_page
from tenon.node.reboot_record import request_text
from tenon.node.state import NodeClaimResult, NodeState, Stage, expiry
from tenon.sentences import counted, shortened

MAX_ENTRIES = 64
MAX_BYTES = 8 * 1024
MAX_TEXT = 300


def record(state: NodeState, now: datetime, text: str) -> NodeState:
    """Add a line to the timeline. If it grows too long, the oldest lines after the first are dropped."""
    entry = TimelineEntry(at=now, text=shortened(text, MAX_TEXT))
    if state.timeline and state.timeline[-1].text == entry.text:
        return state
    lines = [*state.timeline, entry]
    most = MAX_ENTRIES - len(state.explanation)
    room = MAX_BYTES - sum(map(_size, state.explanation))
    while len(lines) > 1 and (len(lines) > most or sum(_size(line.text) for line in lines) > room):
        del lines[1]
    return evolve(state, timeline=tuple(lines))


def _size(text: str) -> int:
    """Bytes of a line, including its time."""
    return len(text.encode()) + 32


def pods_text(state: NodeState) -> str:
    """Say how many pods run on the node, and for how many it was bought if fewer run.

    Other pods may have taken the place of those that it was bought for, such as those of a newer ReplicaSet.
    """
    if state.running_pods is None:
        return f"{state.bound_pods} of the {state.planned_pods} it was bought for run here"
    text = f"{counted(state.running_pods, 'pod')} {'runs' if state.running_pods == 1 else 'run'} here"
    if state.running_pods == state.bound_pods == state.planned_pods:
        return f"{text}, all that it was bought for"
    if state.running_pods >= state.planned_pods:
        return text
    return f"{text}; it was bought for {state.planned_pods}, and the others run elsewhere, are on their way or are gone"


def clock(at: datetime | None) -> str:
    """Return a time as sentences say it, or a dash."""
    return time_text(at) if at is not None else "-"


def blocked_since(state: NodeState) -> datetime | None:
    """Return since when the node's drain is blocked; None in other stages, which do not record it."""
    return state.blocked.since if state.blocked and state.stage in (Stage.DRAINING, Stage.REBOOTING) else None


def why_blocked(state: NodeState) -> str:
    """Say what blocks the node; empty if nothing does."""
    blocked = state.blocked
    if blocked is None:
        return ""
    more = f"and {blocked.more} more" if blocked.more else ""
    return "; ".join(filter(None, (blocked.message, *map(sentence, blocked.pods), more, blocked.idle)))


def blocked_text(state: NodeState) -> str:
    """Say what blocks the node and, for a drain, since when."""
    since = blocked_since(state)
    return why_blocked(state) + (f", since {clock(since)}" if since else "")


def _pods_row(state: NodeState) -> str:
    """Until its pods are bound, shows only how many pods the NodeClaim was created for."""
    own = f"{'bought' if state.instance else 'created'} for {state.planned_pods}"
    if state.initialized and state.stage is not Stage.BINDING and state.planned_pods:
        then = pods_text(state).replace(" runs here", " ran here").replace(" run here", " ran here")
        own = f"when it became live, {then}"
    return f"{own}; {state.evicted_pods} evicted" if state.evicted_pods else own


def _instance_text(instance: Instance | None) -> str:
    if instance is None:
        return "-"
    return f"{instance.id} ({instance.instance_type}, {instance.zone}, {instance.capacity_type})"


def facts(state: NodeState) -> list[str]:
    """Return the facts about a node, as a list in Markdown: Temporal's UI shows tables without space in their cells."""
    instance = state.instance
    rows = [
        ("Stage", f"**{state.stage.value}**"),
        ("NodePool", state.pool or "(stand-alone)"),
        ("Node", state.node_name or "-"),
        ("Instance", _instance_text(instance)),
        ("Price", per_hour(instance.price) if instance else "-"),
        ("Pods", _pods_row(state)),
    ]
    if not state.stage.leaving:
        rows.append(("Expires", clock(expiry(state))))
    if state.keep_until:
        rows.append(("Kept until", clock(state.keep_until)))
    if state.reboot:
        request = state.reboot.request
        since = clock(request.requested_at)
        rows.append(("Reboots", f"{state.reboot.phase.value}: {request_text(request)}, requested {since}"))
    if state.reboots:
        rows.append(("Reboots in 24 h", ", ".join(map(clock, state.reboots))))
    if state.leave:
        label = "Left" if state.stage is Stage.ENDED else "Leaving"
        removals = (state.leave, *state.leave.later)
        rows.append((label, "; ".join(removal_on_page(removal, state.claim.cluster) for removal in removals)))
    if state.force_at:
        rows.append(("Forced from", clock(state.force_at)))
    if state.blocked:
        rows.append(("Blocked", blocked_text(state)))
    return [f"- {name}: {text}" for name, text in rows]


def story(state: NodeState) -> list[str]:
    """Return why the NodeClaim was created, and its timeline with dates, in Markdown."""
    lines: list[str] = []
    if state.explanation:
        title = "Why this node was bought" if state.instance else "Why this NodeClaim was created"
        lines += ["", f"#### {title}", "", *(f"- {line}" for line in state.explanation)]
    lines += ["", "#### Timeline (UTC)", ""]
    return lines + [f"- `{entry.at:%Y-%m-%d %H:%M:%S}` {entry.text}" for entry in state.timeline]


def details(state: NodeState) -> str:
    """Render, as Markdown, the facts about a node and its history, for a terminal."""
    return "\n".join([f"### NodeClaim {state.claim.name}", "", *facts(state), *story(state)])


def result_of(state: NodeState, now: datetime) -> NodeClaimResult:
    """Return the final record of a node."""
    instance = state.instance
    started = (instance.launched_at if instance and instance.launched_at else None) or state.created_at or now
    ended = max(started, state.terminated_at or now)
    lived = ended - started if instance else timedelta()
    price = instance.price if instance else 0.0
    run_times = runs(started, ended, stopped_times(state.stopped)) if instance else []
    charges = (instance_charge(nanos(price), (end or ended) - start) for start, end in run_times)
    return NodeClaimResult(
        claim=state.claim.name,
        pool=state.pool,
        reason=state.leave.reason if state.leave else "",
        detail=state.leave.detail if state.leave else "",
        actor=state.leave.actor if state.leave else "",
        instance_id=instance.id if instance else "",
        instance_type=instance.instance_type if instance else "",
        zone=instance.zone if instance else "",
        capacity_type=instance.capacity_type if instance else "",
        price_per_hour=price,
        lived_seconds=lived.total_seconds(),
        cost=round(dollars(sum(charges)), 6),
        pods_planned=state.planned_pods,
        pods_bound=state.bound_pods,
        pods_evicted=state.evicted_pods,
        evicted_workloads=list(state.evicted_workloads),
        explanation=list(state.explanation),
        timeline=list(state.timeline),
        node_name=state.node_name,
        created_at=state.created_at,
        launched_at=started if instance else None,
        asked_at=state.leave.asked_at if state.leave else None,
        terminated_at=state.terminated_at if instance else None,
        stopped=state.stopped,
        drain_blocks=[ended_block(block, now) for block in state.drain_blocks],
    )
