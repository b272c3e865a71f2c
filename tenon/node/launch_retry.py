"""Decides what happens after a failed launch: whether and when the claim tries again, and its new state.

A claim fails at once only if EC2 has no capacity, its EC2NodeClass is not ready, or its instance was lost. Any other
cause may pass or be fixed by a person, so the claim stays, reports the cause, and retries with growing pauses.

If EC2 answered with a refusal, the claim is given up after `LAUNCH_TIMEOUT` and its pods are planned again. If EC2 did
not answer, the claim keeps trying: a new claim would only add load while EC2 is down.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.kube.timestamps import next_attempt
from tenon.messages.launch import LaunchWait
from tenon.node.state import Blocked, NodeState, Stage
from tenon.node.timeline import record

LAUNCH_TIMEOUT = timedelta(minutes=5)
"""The age at which a claim is given up if EC2 still refuses its launch (LIF-05)."""
ANSWER_GRACE = timedelta(minutes=2)
"""How long an instance may take to appear after a fleet request whose answer was lost."""
NEW_TOKENS_AT_ONCE = 3
"""After this many failures in a row, a request with a new token waits like any other."""
FIRST_PAUSE = timedelta(seconds=5)
MAX_PAUSE = timedelta(seconds=20)
"""Also limits the launch breaker of a NodePool, so that launches resume within a minute after a refusal ends."""


def pause(failures: int) -> timedelta:
    """Return how long to wait after this many failures in a row."""
    doublings = min(max(failures - 1, 0), 10)
    return min(FIRST_PAUSE * (1 << doublings), MAX_PAUSE)


def should_give_up(created_at: datetime | None, now: datetime, *, has_answer: bool) -> bool:
    """True if a claim whose launch failed is not retried. ``has_answer`` is false if EC2 made no decision."""
    return has_answer and created_at is not None and now - created_at > LAUNCH_TIMEOUT


def is_unsettled(until: datetime | None, now: datetime) -> bool:
    """Whether an instance of a request that was sent may still appear."""
    return until is not None and now < until


def with_retry(state: NodeState, wait: LaunchWait, now: datetime) -> NodeState:
    """Return the state of a claim whose launch is retried later.

    The retry repeats the recorded request, with its token, as long as that request may have bought an instance that EC2
    does not show yet: for `ANSWER_GRACE` after each sending without an answer, or after the first answer which shows
    that EC2 had accepted the request. After that, the next attempt makes a new request, because its inputs may have
    changed. This counts as a new attempt even if the launch was held back: a launch group is for first attempts only,
    and EC2 may have refused the group.
    """
    if wait.launched:
        blocked = Blocked(message=wait.message)
        waits = evolve(state, stage=Stage.PREPARING, request=None, deadline=wait.not_before, blocked=blocked)
        return record(waits, now, wait.message)
    failures = state.launch_failures + (not wait.breaker_open)
    at_once = wait.breaker_open or (wait.new_token and failures <= NEW_TOKENS_AT_ONCE)
    again_at = max(now if at_once else now + pause(failures), wait.not_before or now)
    unsettled_until = state.launch_unsettled_until
    if wait.unsettled and not (wait.accepted and unsettled_until is not None):
        unsettled_until = now + ANSWER_GRACE
    update: dict[str, object] = {
        "deadline": again_at,
        "check_now": False,
        "launch_failures": failures,
        "launch_unsettled_until": unsettled_until,
        "blocked": Blocked(message=f"not launched yet: {wait.message}"),
    }
    repeats = not wait.new_token and state.request is not None and is_unsettled(unsettled_until, now)
    if not repeats:
        update |= {"stage": Stage.PREPARING, "request": None, "attempt": state.attempt + 1}
        update["launch_unsettled_until"] = None
    text = f"not launched: {wait.message}; {next_attempt(again_at)}"
    return record(evolve(state, **update), now, text)
