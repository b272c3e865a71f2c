"""When a node expires, whether it asks its NodePool first, and how nodes that are overdue together leave spread out."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.node_steps import ExpirationResult
from tenon.node import leaving_stages
from tenon.node.leave_text import WORKFLOW
from tenon.node.state import NodeState, Stage, expiry
from tenon.node.steps import LeaveRequest
from tenon.node.timeline import record

EXPIRY_WAITS = "expired: waits until the budgets of its NodePool allow it to leave"
ASK_AGAIN = timedelta(minutes=10)
"""How soon an expired node that waits for the budgets asks again."""
ASK_FROZEN_AGAIN = timedelta(hours=1)
"""The same while a freeze keeps it: somebody may lift the freeze earlier. Each time is an activity, which costs."""
SOON = timedelta(seconds=10)
"""The least pause before it asks again."""
LATE = timedelta(minutes=1)
"""A deadline handled this late was delayed by an outage, which probably delayed many other nodes too."""
SPREAD = timedelta(minutes=1)
"""Nodes that are overdue together leave spread over this period."""


def next_expiry(state: NodeState) -> datetime | None:
    """Return when to remove the node because it expired, or to ask again whether it may leave."""
    due = expiry(state)
    if due is None or state.expiry_waits_until is None:
        return due
    return max(due, state.expiry_waits_until)


def asks_before_it_expires(state: NodeState, now: datetime) -> bool:
    """Return whether the node, if its time has come, must ask whether its NodePool makes expired nodes wait.

    A node that has never been live does not ask: budgets do not count it.
    """
    due = next_expiry(state)
    return _has_been_live(state) and bool(state.pool) and due is not None and now >= due


def _has_been_live(state: NodeState) -> bool:
    """Return whether the node is live, or reboots, or becomes live again after a reboot."""
    if state.stage is Stage.INITIALIZING:
        return bool(state.reboots) or state.expiry_waits_until is not None
    return state.stage in (Stage.LIVE, Stage.REBOOTING)


def may_expire(state: NodeState, event: ExpirationResult, now: datetime) -> NodeState:
    """Leave, or wait for a disruption command and ask again later, because the NodePool may change meanwhile."""
    if not state.expired or state.stage.leaving:
        return state
    state = evolve(state, expired=False)
    if not (event.waits or event.frozen):
        return leave_expired(state, now)
    again = now + ASK_AGAIN
    if event.frozen and event.frozen_until is not None:
        again = max(now + SOON, min(event.frozen_until, now + ASK_FROZEN_AGAIN))
    waits = evolve(state, expiry_waits_until=again, expiry_waits_for=event.frozen, spread_until=None)
    if state.expiry_waits_until is not None and state.expiry_waits_for == event.frozen:
        return waits
    return record(waits, now, frozen_sentence(state.pool, event.frozen) if event.frozen else EXPIRY_WAITS)


def frozen_sentence(pool: str, frozen: str) -> str:
    """Say that an expired node waits for a freeze."""
    return f"expired: waits because NodePool {pool} is {frozen}"


def leave_expired(state: NodeState, now: datetime) -> NodeState:
    """Leave because the time to live is over."""
    request = LeaveRequest(reason=Reason.EXPIRED, detail="its time to live is over", actor=WORKFLOW)
    return leaving_stages.leave(state, request, now)


def staggered(state: NodeState, due: datetime, now: datetime) -> NodeState | None:
    """Return a state that delays an overdue live node to its share of `SPREAD`; None if the node leaves now."""
    if state.stage is not Stage.LIVE or now - due < LATE:
        return None
    if state.spread_until is not None:
        return None if now >= state.spread_until else state
    share = zlib.crc32(state.claim.uid.encode()) / 2**32
    return evolve(state, spread_until=now + share * SPREAD)
