"""The table of what keeps a node, and for which reasons (DIS-10 to DIS-16, DIS-30, DIS-46).

To add a blocker, add it to `BLOCKERS`. Decisions, validation, events, explanations, and the facts that start a look
read the table, so none of them can forget it. Two things are not in it: budgets, which count nodes while methods choose
some, and what only a search finds out, such as a pod that fits nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from tenon.apis import labels
from tenon.apis.reasons import Reason, traits_of
from tenon.disruption.history.arrivals import rest_until, times_moved
from tenon.disruption.model import ManagedNode, NodeDetail, Situation
from tenon.disruption.rules.consolidatable import is_over, over_at
from tenon.kube.timestamps import format_instant
from tenon.sentences import counted

Why = Callable[[ManagedNode, Situation], str]
When = Callable[[ManagedNode, Situation], datetime | None]

EVERY = frozenset(Reason)
DISRUPTIONS = frozenset(reason for reason in Reason if reason.is_disruption)
CONSOLIDATION = frozenset(reason for reason in Reason if reason.traits.is_consolidation)
SAVINGS = frozenset(reason for reason in Reason if reason.traits.counts_savings)


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that may keep a node."""

    name: str
    reasons: frozenset[Reason]
    """The reasons that give way to it."""
    why: Why
    """Returns why it keeps the node, in a clause; empty if it does not."""
    ends: When | None = None
    """Returns when it ends, if time alone ends it."""
    reported: bool = False
    """An event says it. Other blockers are what users asked for, or over in a moment."""
    graceful_only: bool = False
    """Drift passes it if the NodeClaim has a terminationGracePeriod (DIS-14)."""
    needs_model: bool = False
    """Only a model of the cluster can say it. Without one, the node counts as free, and a later check has a model."""
    is_final: bool = False
    """Nothing else matters while it holds."""

    @property
    def is_about_node(self) -> bool:
        """Whether it excludes the node itself, whatever its pods and whichever disruption it is."""
        return self.reasons >= DISRUPTIONS and not self.graceful_only


@dataclass(frozen=True, slots=True)
class Hold:
    """A blocker that keeps a node now."""

    blocker: Blocker
    why: str
    until: datetime | None
    """When it ends by itself, if nothing changes; None if it does not."""


def holds(node: ManagedNode, situation: Situation, reason: Reason) -> Iterator[Hold]:
    """Yield what keeps a node from being removed for a reason, the most important first."""
    for blocker in _APPLYING[reason, situation.model is not None]:
        why = blocker.why(node, situation)
        if why and not (blocker.graceful_only and _gives_way(node, situation, reason)):
            yield Hold(blocker, why, blocker.ends(node, situation) if blocker.ends is not None else None)
            if blocker.is_final:
                return


def is_free(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Return whether nothing keeps the node from being removed for a reason."""
    for blocker in _APPLYING[reason, situation.model is not None]:  # thousands of nodes ask: not by way of `holds`
        if blocker.why(node, situation) and not (blocker.graceful_only and _gives_way(node, situation, reason)):
            return False
    return True


def free_at(held: Iterable[Hold]) -> datetime | None:
    """Return when all of this is over by itself; None if time alone does not end it."""
    ends = [hold.until for hold in held]
    times = [end for end in ends if end is not None]
    return max(times, default=None) if len(times) == len(ends) else None


def reported(held: Iterable[Hold]) -> Hold | None:
    """Return what an event says of all this: the first that is no matter of time alone, if events report it."""
    first = next((hold for hold in held if hold.blocker.reported or hold.until is None), None)
    return first if first is not None and first.blocker.reported else None


def _gives_way(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Whether what protects pods does not keep the node in the end (DIS-14). A model must say it."""
    detail = situation.detail_of(node)
    return reason.traits.mode == "eventual" and (detail is None or detail.has_grace_period)


def _leaving(node: ManagedNode, _: Situation) -> str:
    return "it is already leaving" if node.leaving else ""


def _pool(node: ManagedNode, situation: Situation) -> str:
    return "" if node.pool in situation.policies else f"NodePool {node.pool} does not exist or cannot be read"


def _not_initialized(node: ManagedNode, _: Situation) -> str:
    return "" if node.initialized else "its NodeClaim is not initialized"


def _command(node: ManagedNode, situation: Situation) -> str:
    if node.disrupted_by:
        return f"disruption command {node.disrupted_by} is about to remove it"
    return "an open disruption command removes it" if node.claim in situation.under_command else ""


def _expiry(node: ManagedNode, situation: Situation) -> str:
    if node.expires_at is None:
        return "it never expires"
    return f"it expires at {format_instant(node.expires_at)}" if node.expires_at > situation.now else ""


def _expires_at(node: ManagedNode, _: Situation) -> datetime | None:
    return node.expires_at


def _never(node: ManagedNode, situation: Situation) -> str:
    policy = situation.policies[node.pool]
    if policy.replicas is not None:
        return f"NodePool {policy.name} is static: it keeps spec.replicas nodes, empty or not"
    return f"consolidateAfter of NodePool {policy.name} is Never" if policy.consolidate_after is None else ""


def _protected(node: ManagedNode, _: Situation) -> str:
    return f"{node.protected_by} protects it" if node.protected_by else ""


def _replacement(node: ManagedNode, _: Situation) -> str:
    if not node.replacement_for:
        return ""
    return f"it was created for disruption command {node.replacement_for}, which has not ended"


def _postponed(node: ManagedNode, situation: Situation) -> str:
    if node.claim not in situation.postponed:
        return ""
    return "a disruption command failed to remove it, so it is left alone for some minutes"


def _nominated(node: ManagedNode, situation: Situation) -> str:
    return "pods that have no node yet are expected to run on it" if node.named_in(situation.nominated) else ""


def _keeps_pods(node: ManagedNode, situation: Situation) -> str:
    policy, detail = situation.policies[node.pool], situation.detail_of(node)
    if not policy.keeps_nodes_with_pods or node.empty:
        return ""
    pods = counted(len(detail.pods), "pod") if detail is not None else "pods"
    return f"consolidationPolicy of NodePool {node.pool} is WhenEmpty, and it has {pods}"


def _pod(node: ManagedNode, situation: Situation) -> str:
    detail = situation.detail_of(node)
    if detail is not None and detail.held_by:
        return detail.held_by
    return node.held_by if node.empty else ""


def _buffer(node: ManagedNode, situation: Situation) -> str:
    return "a CapacityBuffer keeps room on it" if node.named_in(situation.buffer_hosts) else ""


def _consolidate_after(node: ManagedNode, situation: Situation) -> str:
    if not (node.empty or situation.knows_pod_events):
        return ""  # a later check knows
    policy, since = situation.policies[node.pool], situation.quiet_since_of(node)
    if since is None:
        return "it is not known when a pod last came or went"
    if is_over(policy, since, situation.now):
        return ""
    what = "it has been empty since" if node.empty else "a pod came or went, or the node was initialized, at"
    over = over_at(policy, since)
    until = f"is over at {format_instant(over)}" if over is not None else "is Never"
    return f"{what} {format_instant(since)}, and consolidateAfter of NodePool {policy.name} {until}"


def _consolidate_after_ends(node: ManagedNode, situation: Situation) -> datetime | None:
    return over_at(situation.policies[node.pool], situation.quiet_since_of(node))


def _rest(node: ManagedNode, situation: Situation) -> str:
    ends = _rest_ends(node, situation)
    if ends is None or ends <= situation.now:
        return ""
    return f"consolidation created it, so it rests until {format_instant(ends)} ({labels.REST_AFTER_MOVE})"


def _rest_ends(node: ManagedNode, situation: Situation) -> datetime | None:
    detail = situation.detail_of(node)
    if detail is None or detail.created_at is None or not traits_of(node.created_for).counts_savings:
        return None
    return detail.created_at + situation.policies[node.pool].rest_after_move


def _slowed(node: ManagedNode, situation: Situation) -> str:
    why = situation.slowed.get(node.pool)
    return f"NodePool {node.pool} is slowed down: {why}" if why else ""


def _pods_rest(node: ManagedNode, situation: Situation) -> str:
    """Without a rest, consolidation would move the same pods again and again (WSH-01)."""
    until, detail = _pods_rest_until(node, situation), situation.detail_of(node)
    if until is None or detail is None:
        return ""
    resting = next(pod for pod in detail.pods if rest_until([pod], node.arrivals, situation.now) == until)
    times, last = times_moved(resting, node.arrivals, situation.now)
    assert last is not None
    often = "once" if times == 1 else f"{times} times"
    return (
        f"disruption commands have moved its pod {resting.key} {often} in the last day, at {format_instant(last)} for "
        f"the last time, so consolidation lets it rest until {format_instant(until)}"
    )


def _pods_rest_until(node: ManagedNode, situation: Situation) -> datetime | None:
    """A node that was bought in a capacity shortage does not rest: an hour of it may cost more than the move."""
    detail = situation.detail_of(node)
    if detail is None or node.bought_in_shortage:
        return None
    return rest_until(detail.pods, node.arrivals, situation.now)


def _destination(node: ManagedNode, situation: Situation) -> str:
    return "pods of other nodes are about to move to it" if node.named_in(situation.destinations) else ""


def _launches_nothing(node: ManagedNode, situation: Situation) -> str:
    if situation.model is None or node.pool in situation.model.launching:
        return ""
    return f"NodePool {node.pool} can launch no nodes now, so its nodes are not consolidated"


def _price(node: ManagedNode, situation: Situation) -> str:
    """A node without labels of type, zone and capacity type has no price (DIS-25)."""
    detail = situation.detail_of(node)
    return "" if detail is None or detail.price > 0 else f"its price is not known: {_without_offering(detail)}"


def _without_offering(detail: NodeDetail) -> str:
    return (
        f"the catalogue has no {detail.instance_type or 'type'} "
        f"({detail.capacity_type or 'no capacity type'}, {detail.zone or 'no zone'})"
    )


BLOCKERS = (
    Blocker("leaving", EVERY, _leaving, is_final=True),
    Blocker("NodePool", EVERY, _pool, is_final=True),
    Blocker("initialized", EVERY, _not_initialized),
    Blocker("command", EVERY, _command),
    Blocker("expiry", frozenset({Reason.EXPIRED}), _expiry, ends=_expires_at),
    Blocker("protected", DISRUPTIONS, _protected, reported=True),
    Blocker("replacement", DISRUPTIONS, _replacement),
    Blocker("postponed", DISRUPTIONS, _postponed),
    Blocker("nominated", DISRUPTIONS, _nominated),
    Blocker("never", CONSOLIDATION, _never, is_final=True),
    Blocker("consolidationPolicy", SAVINGS, _keeps_pods, is_final=True),
    Blocker("pod", DISRUPTIONS, _pod, reported=True, graceful_only=True),
    Blocker("CapacityBuffer", CONSOLIDATION, _buffer, reported=True),
    Blocker("consolidateAfter", CONSOLIDATION, _consolidate_after, ends=_consolidate_after_ends),
    Blocker("rest", SAVINGS, _rest, ends=_rest_ends, needs_model=True),
    Blocker("slowed", SAVINGS, _slowed, reported=True),
    Blocker("pods rest", SAVINGS, _pods_rest, ends=_pods_rest_until, reported=True, needs_model=True),
    Blocker("destination", SAVINGS, _destination),
    Blocker("launches", SAVINGS, _launches_nothing, reported=True, needs_model=True),
    Blocker("price", SAVINGS, _price, reported=True, needs_model=True),
)


def applying(table: Iterable[Blocker]) -> dict[tuple[Reason, bool], tuple[Blocker, ...]]:
    """Return which blockers to ask for each reason, without a model of the cluster and with one."""
    return {
        (reason, has_model): tuple(
            blocker for blocker in table if reason in blocker.reasons and (has_model or not blocker.needs_model)
        )
        for reason in Reason
        for has_model in (False, True)
    }


_APPLYING = applying(BLOCKERS)
