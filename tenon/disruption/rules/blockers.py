"""The table of what keeps a node, and for which reasons (DIS-10 to DIS-16, DIS-30, DIS-46).

To add a blocker, add it to `BLOCKERS`. Decisions, validation, events, explanations, and the facts that start a pass
read the table, so none of them can forget it. Two things are not in it: budgets, which count nodes while methods choose
some, and what only a search finds out, such as a pod that fits nowhere else.

Whether a blocker keeps a node is asked for thousands of nodes at a time, mostly where no sentence is needed. So the
question and the sentence are two functions, and a `Hold` makes the sentence when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from tenon.apis import labels
from tenon.apis.reasons import Reason, traits_of
from tenon.disruption.freezes.freeze import (
    FROZEN_REASONS,
    NEVER,
    Frozen,
    frozen_expiry,
    frozen_now,
    is_expiry_frozen,
    is_frozen,
)
from tenon.disruption.history.arrivals import rest_until, times_moved
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.repair.breaker import MAX_UNHEALTHY_PERCENT
from tenon.disruption.rules.approvals import is_asked_for, refused_until, stays_for_waiting, why_asked
from tenon.disruption.rules.consolidatable import is_over, over_at
from tenon.disruption.rules.unhealthy import has_bound
from tenon.disruption.situation import Situation
from tenon.kube.timestamps import time_text
from tenon.sentences import counted

Keeps = Callable[[ManagedNode, Situation], object]
Why = Callable[[ManagedNode, Situation], str]
When = Callable[[ManagedNode, Situation], datetime | None]

EVERY = frozenset(Reason)
DISRUPTIONS = frozenset(reason for reason in Reason if reason.is_disruption)
REPAIR = frozenset({Reason.UNHEALTHY})
VOLUNTARY = DISRUPTIONS - REPAIR
"""What gives way to the wish that a node stays as it is. An unhealthy node is replaced all the same (N15-022)."""
CONSOLIDATION = frozenset(reason for reason in Reason if reason.traits.is_consolidation)
SAVINGS = frozenset(reason for reason in Reason if reason.traits.counts_savings)


class Outlook(Enum):
    """What becomes of a blocker, for advice: only about what lasts is it worth giving."""

    LASTS = auto()
    """It lasts until somebody changes something."""
    PASSES = auto()
    """Time alone ends it, or pods that come and go."""
    MOVES = auto()
    """Something happens to the node already, or nothing can be said about it."""
    UNREAD = auto()
    """Only instance types and prices say it, or what commands saved, which a report does not read."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that may keep a node."""

    name: str
    reasons: frozenset[Reason]
    """The reasons that give way to it."""
    keeps: Keeps
    """Returns something true if it keeps the node."""
    why: Why | str
    """Why it keeps the node, in a clause. Only asked if it does."""
    ends: When | None = None
    """Returns when it ends, if time alone ends it."""
    reported: bool = False
    """An event says it. Other blockers are what users asked for, or over in a moment."""
    event: Why | str | None = None
    """What its event says, if `why` has figures: each change of the text would be a new event."""
    graceful_only: bool = False
    """Drift passes it if the NodeClaim has a terminationGracePeriod (DIS-14)."""
    needs_model: bool = False
    """Only a model of the cluster can say it. Without one, the node counts as free, and a later check has a model."""
    is_final: bool = False
    """Nothing else matters while it holds."""
    outlook: Outlook = Outlook.LASTS

    @property
    def is_about_node(self) -> bool:
        """Whether it excludes the node itself, whatever its pods and whichever disruption it is."""
        return self.reasons >= VOLUNTARY and not self.graceful_only


class Hold(NamedTuple):
    """A blocker that keeps a node now. A tuple is the cheapest object to make."""

    blocker: Blocker
    node: ManagedNode
    situation: Situation

    @property
    def why(self) -> str:
        """Why it keeps the node, in a clause."""
        return self._said(self.blocker.why)

    @property
    def event(self) -> str:
        """What an event says of it: the same clause without figures."""
        return self._said(self.blocker.event or self.blocker.why)

    @property
    def until(self) -> datetime | None:
        """When it ends by itself, if nothing changes; None if it does not."""
        ends = self.blocker.ends
        return ends(self.node, self.situation) if ends is not None else None

    def _said(self, why: Why | str) -> str:
        return why if isinstance(why, str) else why(self.node, self.situation)


def holds(node: ManagedNode, situation: Situation, reason: Reason) -> list[Hold]:
    """Return what keeps a node from being removed for a reason, the most important first."""
    active_holds: list[Hold] = []
    for blocker in _APPLYING[reason, situation.model is not None]:
        if blocker.keeps(node, situation) and not (blocker.graceful_only and _gives_way(node, situation, reason)):
            active_holds.append(Hold(blocker, node, situation))
            if blocker.is_final:
                break
    return active_holds


def is_free(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Return whether nothing keeps the node from being removed for a reason."""
    for blocker in _APPLYING[reason, situation.model is not None]:  # thousands of nodes ask: not by way of `holds`
        if blocker.keeps(node, situation) and not (blocker.graceful_only and _gives_way(node, situation, reason)):
            return False
    return True


def free_at(node: ManagedNode, situation: Situation, reason: Reason) -> datetime | None:
    """Return when nothing keeps the node any more, which may be now; None if time alone does not end what keeps it."""
    latest = situation.now
    for blocker in _APPLYING[reason, situation.model is not None]:
        if blocker.keeps(node, situation) and not (blocker.graceful_only and _gives_way(node, situation, reason)):
            end = blocker.ends(node, situation) if blocker.ends is not None else None
            if end is None:
                return None
            latest = max(latest, end)
    return latest


def may_be_reported(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Return whether a blocker that events report may keep the node. If not, there is no need to ask the others."""
    for blocker in _APPLYING[reason, situation.model is not None]:
        if (blocker.reported or blocker.is_final) and blocker.keeps(node, situation):
            return blocker.reported
    return False


def reported(active_holds: Iterable[Hold]) -> Hold | None:
    """Return what an event says of all this: the first that is no matter of time alone, if events report it."""
    for hold in active_holds:
        if hold.blocker.reported or hold.until is None:
            return hold if hold.blocker.reported else None
    return None


def _gives_way(node: ManagedNode, situation: Situation, reason: Reason) -> bool:
    """Whether what protects pods does not keep the node in the end (DIS-14). A model must say it."""
    detail = situation.detail_of(node)
    return reason.traits.mode == "eventual" and (detail is None or detail.has_grace_period)


def _command(node: ManagedNode, _: Situation) -> str:
    if node.disrupted_by:
        return f"disruption command {node.disrupted_by} is about to remove it"
    return "an open disruption command removes it"


def _is_early(node: ManagedNode, situation: Situation) -> bool:
    return node.expires_at is None or node.expires_at > situation.now


def _expiry(node: ManagedNode, _: Situation) -> str:
    return f"it expires at {time_text(node.expires_at)}" if node.expires_at is not None else "it never expires"


def _is_frozen(node: ManagedNode, situation: Situation) -> bool:
    freezes = situation.policies[node.pool].freezes
    return bool(freezes) and is_frozen(freezes, situation.now)


def _is_expiry_frozen(node: ManagedNode, situation: Situation) -> bool:
    freezes = situation.policies[node.pool].freezes
    if not freezes or node.expires_at is None:
        return False
    return is_expiry_frozen(freezes, node.expires_at, situation.now)


def _frozen(node: ManagedNode, situation: Situation) -> Frozen | None:
    return frozen_now(situation.policies[node.pool].freezes, situation.now)


def _frozen_expiry(node: ManagedNode, situation: Situation) -> Frozen | None:
    freezes = situation.policies[node.pool].freezes
    return frozen_expiry(freezes, node.expires_at, situation.now) if freezes and node.expires_at is not None else None


def _says(find: Callable[[ManagedNode, Situation], Frozen | None]) -> Why:
    """The clause of the freeze that a function finds."""

    def why(node: ManagedNode, situation: Situation) -> str:
        frozen = find(node, situation)
        return f"NodePool {node.pool} is {frozen.clause}" if frozen is not None else ""

    return why


def _thaws(find: Callable[[ManagedNode, Situation], Frozen | None]) -> When:
    """When the freeze that a function finds ends."""

    def ends(node: ManagedNode, situation: Situation) -> datetime | None:
        frozen = find(node, situation)
        return frozen.until if frozen is not None and frozen.until != NEVER else None

    return ends


def _is_protected(node: ManagedNode, situation: Situation) -> bool:
    """A forecast asks about a later time, at which a keep request may have ended."""
    return bool(node.protected_by) and (node.protected_until is None or node.protected_until > situation.now)


def _is_never(node: ManagedNode, situation: Situation) -> bool:
    policy = situation.policies[node.pool]
    return policy.replicas is not None or policy.consolidate_after is None


def _never(node: ManagedNode, situation: Situation) -> str:
    if situation.policies[node.pool].replicas is not None:
        return f"NodePool {node.pool} is static: it keeps spec.replicas nodes, empty or not"
    return f"consolidateAfter of NodePool {node.pool} is Never"


def _keeps_pods(node: ManagedNode, situation: Situation) -> str:
    detail = situation.detail_of(node)
    pods = counted(len(detail.pods), "pod") if detail is not None else "pods"
    return f"consolidationPolicy of NodePool {node.pool} is WhenEmpty, and it has {pods}"


def _pod(node: ManagedNode, situation: Situation) -> str:
    """The pod that keeps the node; empty if none does, or none does any more."""
    facts = _pod_facts(node, situation)
    if facts is None or (facts.held_until is not None and facts.held_until <= situation.now):
        return ""
    return facts.held_by


def _pod_until(node: ManagedNode, situation: Situation) -> datetime | None:
    facts = _pod_facts(node, situation)
    return facts.held_until if facts is not None else None


def _pod_facts(node: ManagedNode, situation: Situation) -> ManagedNode | NodeDetail | None:
    """What says which pod keeps the node: the model, or else what is known of an empty node; None if no pod does."""
    detail = situation.detail_of(node)
    if detail is not None and detail.held_by:
        return detail
    return node if node.empty else None


def _is_restless(node: ManagedNode, situation: Situation) -> bool:
    if not (node.empty or situation.knows_pod_events):
        return False  # a later check knows
    return not is_over(situation.policies[node.pool], situation.quiet_since_of(node), situation.now)


def _consolidate_after(node: ManagedNode, situation: Situation) -> str:
    since = situation.quiet_since_of(node)
    if since is None:
        return "it is not known when a pod last came or went"
    last_change = "it has been empty since" if node.empty else "a pod came or went, or the node was initialized, at"
    over = over_at(situation.policies[node.pool], since)
    until = f"is over at {time_text(over)}" if over is not None else "is Never"
    return f"{last_change} {time_text(since)}, and consolidateAfter of NodePool {node.pool} {until}"


def _consolidate_after_ends(node: ManagedNode, situation: Situation) -> datetime | None:
    return over_at(situation.policies[node.pool], situation.quiet_since_of(node))


def _rests(node: ManagedNode, situation: Situation) -> bool:
    ends = _rest_ends(node, situation)
    return ends is not None and ends > situation.now


def _rest(node: ManagedNode, situation: Situation) -> str:
    ends = _rest_ends(node, situation)
    assert ends is not None
    return f"consolidation created it, so it rests until {time_text(ends)} ({labels.REST_AFTER_MOVE})"


def _rest_ends(node: ManagedNode, situation: Situation) -> datetime | None:
    if not traits_of(node.created_for).counts_savings:
        return None
    detail = situation.detail_of(node)
    if detail is None or detail.created_at is None:
        return None
    return detail.created_at + situation.policies[node.pool].rest_after_move


def _pods_rest(node: ManagedNode, situation: Situation) -> str:
    """Without a rest, consolidation would move the same pods again and again (WSH-01)."""
    until, detail = _pods_rest_until(node, situation), situation.detail_of(node)
    assert until is not None
    assert detail is not None
    resting = next(pod for pod in detail.pods if rest_until([pod], node.arrivals, situation.now) == until)
    times, last = times_moved(resting, node.arrivals, situation.now)
    assert last is not None
    often = "once" if times == 1 else f"{times} times"
    return (
        f"disruption commands have moved its pod {resting.key} {often} in the last day, at {time_text(last)} for "
        f"the last time, so consolidation lets it rest until {time_text(until)}"
    )


def _pods_rest_until(node: ManagedNode, situation: Situation) -> datetime | None:
    """A node that was bought in a capacity shortage does not rest: an hour of it may cost more than the move."""
    if not node.arrivals or node.bought_in_shortage:
        return None
    detail = situation.detail_of(node)
    return rest_until(detail.pods, node.arrivals, situation.now) if detail is not None else None


def _pod_of_repair(node: ManagedNode, situation: Situation) -> str:
    """The pod that keeps an unhealthy node, because its drain might never end."""
    pod = _pod(node, situation)
    return "" if not pod or has_bound(node, situation) else pod


def _needs_a_bound(node: ManagedNode, situation: Situation) -> str:
    return f"repair requires a termination grace period to bypass blocking pods: {_pod(node, situation)}"


def _is_tripped(node: ManagedNode, situation: Situation) -> bool:
    return situation.repair is not None and node.pool in situation.repair.tripped


def _has_no_types(node: ManagedNode, situation: Situation) -> bool:
    model = situation.model
    return model is not None and node.pool not in model.launching and node.pool not in model.static_pools


def _has_no_price(node: ManagedNode, situation: Situation) -> bool:
    """A node without labels of type, zone and capacity type has no price (DIS-25)."""
    detail = situation.detail_of(node)
    return detail is not None and detail.price <= 0


def _price(node: ManagedNode, situation: Situation) -> str:
    detail = situation.detail_of(node)
    assert detail is not None
    return (
        f"its price is not known: the catalogue has no {detail.instance_type or 'type'} "
        f"({detail.capacity_type or 'no capacity type'}, {detail.zone or 'no zone'})"
    )


def _waits_for_wave(node: ManagedNode, situation: Situation) -> bool:
    return node.pool in situation.rollouts and situation.rollout_replaces(node) is None


def _version_is_missing(node: ManagedNode, situation: Situation) -> bool:
    rollout, model = situation.rollout_replaces(node), situation.model
    return rollout is not None and rollout.launches_target and model is not None and node.pool not in model.wave_pools


FROZEN = "frozen"
"""The name of the blocker that a DisruptionFreeze is, which ends by itself or by the hand that made it."""
ROLLOUT = "rollout"
"""The name of the blocker that a NodeRollout is for nodes which no wave has reached."""
PROTECTED = "protected"
"""The name of the blocker that an annotation of the node is."""
POD = "pod"
"""The name of the blocker of nodes with a pod that may not be evicted."""
CONSOLIDATION_OFF = "never"
"""The name of the blocker that ``consolidateAfter: Never`` is."""
CONSOLIDATION_POLICY = "consolidationPolicy"
"""The name of the blocker that ``consolidationPolicy: WhenEmpty`` is."""

BLOCKERS = (
    Blocker(
        "leaving", EVERY, lambda node, _: node.leaving, "it is already leaving", is_final=True, outlook=Outlook.MOVES
    ),
    Blocker(
        "NodePool",
        EVERY,
        lambda node, situation: node.pool not in situation.policies,
        lambda node, _: f"NodePool {node.pool} does not exist or cannot be read",
        is_final=True,
        outlook=Outlook.MOVES,
    ),
    Blocker(
        "rebooting", EVERY, lambda node, _: node.rebooting, "node is rebooting", reported=True, outlook=Outlook.MOVES
    ),
    Blocker(
        "initialized",
        EVERY - REPAIR,
        lambda node, _: not node.initialized,
        "its NodeClaim is not initialized",
        outlook=Outlook.MOVES,
    ),
    Blocker(
        "registered",
        REPAIR,
        lambda node, _: not (node.registered or node.initialized),
        "node isn't initialized nor registered",
        reported=True,
    ),
    Blocker(
        "command",
        EVERY,
        lambda node, situation: node.disrupted_by or node.claim in situation.under_command,
        _command,
        outlook=Outlook.MOVES,
    ),
    Blocker("expiry", frozenset({Reason.EXPIRED}), _is_early, _expiry, ends=lambda node, _: node.expires_at),
    Blocker(FROZEN, FROZEN_REASONS, _is_frozen, _says(_frozen), ends=_thaws(_frozen)),
    Blocker(
        "frozen expiry",
        frozenset({Reason.EXPIRED}),
        _is_expiry_frozen,
        _says(_frozen_expiry),
        ends=_thaws(_frozen_expiry),
    ),
    Blocker(
        PROTECTED,
        VOLUNTARY,
        _is_protected,
        lambda node, _: f"{node.protected_by} protects it",
        ends=lambda node, _: node.protected_until,
        reported=True,
    ),
    Blocker(
        "replacement",
        DISRUPTIONS,
        lambda node, _: node.replacement_for,
        lambda node, _: f"it was created for disruption command {node.replacement_for}, which has not ended",
        outlook=Outlook.MOVES,
    ),
    Blocker(
        "postponed",
        DISRUPTIONS,
        lambda node, situation: node.claim in situation.postponed,
        "a disruption command failed to remove it, so it is left alone for some minutes",
        outlook=Outlook.PASSES,
    ),
    # An empty or unhealthy node is another question than the one that waits or was refused, with its own answer. Events
    # of their own say these three, because a node that events of passes name gets a pass every minute.
    Blocker(
        "approval",
        VOLUNTARY - {Reason.EMPTY},
        lambda node, situation: node.claim in situation.approvals,
        why_asked,
        ends=refused_until,
    ),
    Blocker(
        "approval of an empty node",
        frozenset({Reason.EMPTY}),
        lambda node, situation: situation.approvals and is_asked_for(node, situation, Reason.EMPTY),
        why_asked,
        ends=refused_until,
    ),
    Blocker(
        "approval of a repair",
        REPAIR,
        lambda node, situation: situation.approvals and is_asked_for(node, situation, Reason.UNHEALTHY),
        why_asked,
        ends=refused_until,
    ),
    Blocker(
        "nominated",
        DISRUPTIONS,
        # An unhealthy node that is not initialized may never run them (N15-122).
        lambda node, situation: situation.nominated and node.initialized and node.named_in(situation.nominated),
        "pods that have no node yet are expected to run on it",
        outlook=Outlook.PASSES,
    ),
    Blocker(
        "do-not-repair",
        REPAIR,
        lambda node, _: node.repair_veto,
        lambda node, _: f'the "{labels.DO_NOT_REPAIR}" annotation of its {node.repair_veto} keeps repair away',
        reported=True,
    ),
    Blocker(
        "too many unhealthy",  # an event of its own says it
        REPAIR,
        _is_tripped,
        lambda node, _: f"more than {MAX_UNHEALTHY_PERCENT}% of the nodes of NodePool {node.pool} are unhealthy",
    ),
    Blocker("pod of an unhealthy node", REPAIR, _pod_of_repair, _needs_a_bound, reported=True),
    Blocker(
        "types for repair",
        REPAIR,
        _has_no_types,
        lambda node, _: f"NodePool {node.pool} can launch no nodes now, so its nodes are not repaired",
        reported=True,
        needs_model=True,
        outlook=Outlook.UNREAD,
    ),
    Blocker("warm", CONSOLIDATION, lambda node, _: node.warm, "its NodePool keeps it as a warm node for pods to come"),
    Blocker(CONSOLIDATION_OFF, CONSOLIDATION, _is_never, _never, is_final=True),
    Blocker(
        CONSOLIDATION_POLICY,
        SAVINGS,
        lambda node, situation: not node.empty and situation.policies[node.pool].keeps_nodes_with_pods,
        _keeps_pods,
        is_final=True,
    ),
    Blocker(
        ROLLOUT,
        frozenset({Reason.DRIFTED}),
        _waits_for_wave,
        lambda node, situation: situation.rollouts[node.pool].why_not(),
        reported=True,
    ),
    Blocker(
        "version",
        frozenset({Reason.DRIFTED}),
        _version_is_missing,
        lambda node, situation: (
            f"NodePool {node.pool} can launch no nodes of version {situation.rollouts[node.pool].replacement} now"
        ),
        reported=True,
        needs_model=True,
    ),
    Blocker(POD, VOLUNTARY, _pod, _pod, ends=_pod_until, reported=True, graceful_only=True),
    Blocker(
        "CapacityBuffer",
        CONSOLIDATION,
        lambda node, situation: situation.buffer_hosts and node.named_in(situation.buffer_hosts),
        "a CapacityBuffer or the floor of a NodeSchedule keeps room on it",
        reported=True,
        outlook=Outlook.MOVES,
    ),
    Blocker(
        "consolidateAfter",
        CONSOLIDATION,
        _is_restless,
        _consolidate_after,
        ends=_consolidate_after_ends,
        outlook=Outlook.PASSES,
    ),
    Blocker("rest", SAVINGS, _rests, _rest, ends=_rest_ends, needs_model=True, outlook=Outlook.PASSES),
    Blocker(
        "slowed",
        SAVINGS,
        lambda node, situation: situation.slowed.get(node.pool),
        lambda node, situation: f"NodePool {node.pool} is slowed down: {situation.slowed[node.pool]}",
        reported=True,
        event=lambda node, _: (
            f"NodePool {node.pool} is slowed down: the last consolidation commands saved less than predicted"
        ),
        outlook=Outlook.UNREAD,
    ),
    Blocker(
        "pods rest",
        SAVINGS,
        _pods_rest_until,
        _pods_rest,
        ends=_pods_rest_until,
        reported=True,
        event="disruption commands moved pods of it not long ago, so consolidation lets them rest",
        needs_model=True,
        outlook=Outlook.PASSES,
    ),
    Blocker(
        "destination",
        SAVINGS,
        lambda node, situation: situation.destinations and node.named_in(situation.destinations),
        "pods of other nodes are about to move to it",
        outlook=Outlook.PASSES,
    ),
    Blocker(
        "destination of an approval",
        SAVINGS,
        lambda node, situation: situation.approvals and stays_for_waiting(node, situation),
        "pods of other nodes move to it if a person approves a command that waits",
        reported=True,
        outlook=Outlook.PASSES,
    ),
    Blocker(
        "launches",
        SAVINGS,
        lambda node, situation: situation.model is not None and node.pool not in situation.model.launching,
        lambda node, _: f"NodePool {node.pool} can launch no nodes now, so its nodes are not consolidated",
        reported=True,
        needs_model=True,
        outlook=Outlook.UNREAD,
    ),
    Blocker("price", SAVINGS, _has_no_price, _price, reported=True, needs_model=True, outlook=Outlook.UNREAD),
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
