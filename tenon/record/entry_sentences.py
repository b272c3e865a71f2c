"""Says in a line what an entry of the record is about, what happened and why, and what several cost in all.

Lines are for people in a terminal, so they are bounded and say how much they leave out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from tenon.kube.timestamps import time_text
from tenon.messages.explanation import Explanation
from tenon.money import per_hour, price_text
from tenon.record.entries import (
    CommandEndEntry,
    CommandEntry,
    CostEntry,
    DisruptionEntry,
    Entry,
    EntryKind,
    LaunchEntry,
    PlanEntry,
    RecordedNode,
    RecordedPurchase,
    RefusalEntry,
    RemovalEntry,
    TeardownEntry,
)
from tenon.record.history import pools_of
from tenon.sentences import counted, first_few, lasting

NAMED = 3
"""How many names of a list a line has."""
NAMED_WIDE = 100
"""How many names, or reasons, a wide line has. A message of the record may have more."""


def about(entry: Entry) -> str:
    """Return what an entry is about, in one name."""
    match entry:
        case PlanEntry():
            return f"batch {entry.batch}"
        case CommandEntry() | CommandEndEntry():
            return entry.command
        case LaunchEntry() | RemovalEntry():
            return entry.facts.node or entry.facts.claim
        case RefusalEntry():
            return entry.claim
        case CostEntry() | DisruptionEntry() | TeardownEntry():
            return entry.cluster


def sentence(entry: Entry, name: str = "", *, is_wide: bool = False) -> str:
    """Return what happened, in a clause, which says how many names it leaves out.

    Args:
        entry: the entry.
        name: the pod of the question, if it is one.
        is_wide: whether it has all names and reasons, up to `NAMED_WIDE`.
    """
    most = NAMED_WIDE if is_wide else NAMED
    match entry:
        case PlanEntry():
            return _of_pod(entry, name) or _plan(entry, most, NAMED_WIDE if is_wide else 1)
        case CommandEntry():
            return _command(entry, most)
        case CommandEndEntry():
            return _command_end(entry, most)
        case LaunchEntry():
            return _node(entry.facts)
        case RefusalEntry():
            scope = f" ({_first_names(entry.offerings, most, entry.offering_count)})" if entry.offerings else ""
            return f"{entry.message or 'refused'}{scope}"
        case RemovalEntry():
            return _removal(entry)
        case CostEntry():
            pools = counted(len(pools_of(entry)), "NodePool")
            return f"{price_text(entry.cost)} since {time_text(entry.since)}, of {pools}"
        case TeardownEntry():
            return _teardown(entry)
        case DisruptionEntry():
            commands = f"{counted(entry.command_count, 'command')} for {counted(entry.node_count, 'node')}"
            return f"{commands}; {counted(entry.refused_count, 'node')} kept by a rule"


def why(entry: Entry, *, is_wide: bool = False) -> str:
    """Return why it happened, in one line; empty if the entry does not say it. ``is_wide``: as in `sentence`."""
    match entry:
        case CommandEntry():
            first = entry.why.partition("\n")[0]
            return f"{entry.reason}: {first}" if first else entry.reason
        case CommandEndEntry():
            return entry.reason
        case RemovalEntry():
            return f"{entry.reason}: {entry.detail}" if entry.detail else entry.reason
        case RefusalEntry():
            return entry.code
        case LaunchEntry():
            return _choice(entry.why)
        case PlanEntry():
            return _choice(entry.purchases[0].why) if entry.purchases else ""
        case CostEntry():
            return ""
        case TeardownEntry():
            return entry.reason
        case DisruptionEntry():
            reasons = [f"{claim}: {why}" for claim, why in entry.refused.items()]
            return _first_of(reasons, NAMED_WIDE if is_wide else 1, entry.refused_count)


def total_price(entries: Sequence[Entry], kinds: Collection[str]) -> str:
    """Return what the launches, or else the NodeClaims of the plans, of a question cost an hour in all.

    It is empty if the question asks for neither. A launch follows a plan, unless EC2 refuses it, so only one of the two
    is counted.
    """
    launches = [entry.facts.price for entry in entries if isinstance(entry, LaunchEntry)]
    plans = [entry for entry in entries if isinstance(entry, PlanEntry)]
    if EntryKind.LAUNCH in kinds and launches:
        unknown = launches.count(0.0)
        rest = f"; the price of {unknown} is not known" if unknown else ""
        return f"{counted(len(launches), 'node')} launched, {per_hour(sum(launches))} in all{rest}"
    if EntryKind.PLAN in kinds and plans:
        claim_count = sum(entry.purchase_count or len(entry.purchases) for entry in plans)
        price = sum(entry.price or sum(part.price for part in entry.purchases) for entry in plans)
        claims = counted(claim_count, "NodeClaim")
        return f"{counted(len(plans), 'plan')} created {claims}, planned at {per_hour(price)} in all"
    return ""


def _teardown(entry: TeardownEntry) -> str:
    counts = ", ".join(counted(number, kind) for kind, number in sorted(entry.counts.items()) if number)
    rest = f"; {counted(len(entry.leftovers), 'thing')} stayed" if entry.leftovers else ""
    return f"the cluster was torn down: ended {counts or 'nothing'}{rest}"


def _choice(explanation: Explanation) -> str:
    """Why an instance type was chosen, or what the node is bought for, if the first is not explained."""
    return explanation.choice or explanation.purpose


def _of_pod(entry: PlanEntry, name: str) -> str:
    """What a plan decided about one pod; empty if the name is not one of its pods."""

    def is_pod(pod: str) -> bool:
        return bool(name) and name in (pod, pod.partition("/")[2])

    for purchase in entry.purchases:
        if any(map(is_pod, purchase.pods)):
            return f"{name} is planned for a new node: {_purchase(purchase)}"
    for node, pods in entry.on_existing.items():
        if any(map(is_pod, pods)):
            return f"{name} gets room on {node}"
    for pod, reason in entry.unschedulable.items():
        if is_pod(pod):
            return f"{name} fits nowhere: {reason}"
    return ""


def _first_of(clauses: Sequence[str], most: int, count: int = 0) -> str:
    """Join the first clauses, and say how many others there are. ``count``: of all, if some are not in the entry."""
    more = max(count, len(clauses)) - len(clauses[:most])
    return "; ".join([*clauses[:most], *([f"and {more} more"] if more and clauses else [])])


def _first_names(names: Sequence[str], most: int, count: int) -> str:
    """Like `first_few`, of a list that may be cut. ``count``: how long it was."""
    more = max(count, len(names)) - len(names[:most])
    return ", ".join(names[:most]) + (f" and {more} more" if more else "")


def _plan(entry: PlanEntry, most: int, reasons: int) -> str:
    parts = [counted(entry.pods, "pod")]
    created = entry.purchase_count or len(entry.purchases)
    if created:
        purchases = ", ".join(map(_purchase, entry.purchases[:most]))
        more = f" and {created - most} more" if created > most else ""
        parts.append(f"creates {purchases}{more}")
    if entry.on_existing:
        parts.append(f"{entry.placed_count} to nodes that exist: {first_few(list(entry.on_existing), most)}")
    if entry.unschedulable_count:
        clauses = [f"{pod}: {reason}" for pod, reason in entry.unschedulable.items()]
        first = f": {_first_of(clauses, reasons, entry.unschedulable_count)}" if clauses else ""
        parts.append(f"{counted(entry.unschedulable_count, 'pod')} without a place{first}")
    return "; ".join(parts)


def _purchase(purchase: RecordedPurchase) -> str:
    price = f", {per_hour(purchase.price)}" if purchase.price else ""
    kind = purchase.instance_type or "a type"
    return f"{purchase.claim} ({kind}{price})"


def _command(entry: CommandEntry, most: int) -> str:
    nodes = first_few([candidate.node or candidate.claim for candidate in entry.candidates], most)
    text = f"reboots {nodes}" if entry.decision == "reboot" else f"removes {nodes}"
    if entry.replacements:
        text += f"; creates {first_few(list(map(_purchase, entry.replacements)), most)}"
    if entry.predicted:
        text += f"; is to save {per_hour(entry.predicted)}"
    if entry.approve_until is not None:
        text += f"; waits for approval until {time_text(entry.approve_until)}"
    return text


def _command_end(entry: CommandEndEntry, most: int) -> str:
    approval = entry.approval
    if approval is not None and approval.answer == "approved":
        approved = [f"{approval.by} approved it" + (f": {approval.reason}" if approval.reason else "")]
    else:
        approved = []
    if entry.failure:
        return "; ".join([*approved, f"undone: {entry.failure}"])
    parts = [*approved, f"{counted(len(entry.accepted), 'node')} left" if entry.accepted else "no node left"]
    if stays := [f"{claim} stays: {reason}" for claim, reason in entry.refused.items()]:
        parts.append(_first_of(stays, most))
    if entry.outcome:
        parts.append(entry.outcome)
    if entry.reached is not None and entry.predicted is not None:
        parts.append(f"saves {per_hour(entry.reached)} of {price_text(entry.predicted)} predicted")
    return "; ".join(parts)


def _node(facts: RecordedNode) -> str:
    price = f"{per_hour(facts.price)}" if facts.price else ""
    return " ".join(filter(None, (facts.instance, facts.instance_type, facts.zone, facts.capacity_type, price)))


def _removal(entry: RemovalEntry) -> str:
    if not entry.had_instance:
        return "ended before it had an instance"
    ended = entry.terminated_at or entry.at
    parts = [
        entry.facts.instance_type,
        *([f"ran {lasting(max(timedelta(), ended - entry.launched_at))}"] if entry.launched_at is not None else []),
        f"cost {price_text(entry.cost)}",
        f"{counted(entry.pods, 'pod')} evicted",
    ]
    if entry.blocked_by:
        longest = entry.blocked_by[0]
        more = f" and {len(entry.blocked_by) - 1} more" if len(entry.blocked_by) > 1 else ""
        parts.append(f"its drain waited {lasting(timedelta(seconds=longest.seconds))} for {longest.cause}{more}")
    return ", ".join(filter(None, parts))
