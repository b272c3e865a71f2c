"""A launch that fails: whether the claim is kept for another try, when that is, and what the claim's state becomes.

Only a lack of capacity, an EC2NodeClass that is not ready, and a lost instance end a claim at once. Everything else may
be over in a moment or mended by a person, so the claim stays, says why, and tries again with growing pauses. A claim
that EC2 answered with a refusal is given up when its time is over, and its pods are planned again. A claim that EC2 did
not answer goes on: to make another in its place would only add to the load of an EC2 that is down.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.kube.timestamps import format_instant
from tenon.lifecycle.messages import LaunchWait
from tenon.lifecycle.state import NodeState, Stage
from tenon.lifecycle.timeline import record

LAUNCH_WITHIN = timedelta(minutes=5)
"""A claim whose launch EC2 still refuses when it is so old is given up (LIF-05)."""
LAUNCH_SETTLES = timedelta(minutes=2)
"""How long an instance of a fleet request whose answer was lost may take to show up."""
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(seconds=20)
"""Also of a NodePool's launch breaker: what stood still because of a refusal runs within a minute after its end."""


def pause(failures: int) -> timedelta:
    """How long to wait after so many failures in a row."""
    doublings = min(max(failures - 1, 0), 10)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)


def given_up(created_at: datetime | None, now: datetime, *, answered: bool) -> bool:
    """Whether a claim whose launch has failed is not tried again; ``answered`` is false when EC2 did not decide."""
    return answered and created_at is not None and now - created_at > LAUNCH_WITHIN


def put_off(state: NodeState, wait: LaunchWait, now: datetime) -> NodeState:
    """The state of a claim whose launch is tried again later.

    The recorded request is sent again, with its token, for as long as it may have bought an instance that EC2 does not
    show yet. Otherwise a new request is made, for what it is made from may have changed. It is another attempt, also
    where the request was held back: the launch group, which is for first attempts, may have been refused.
    """
    failures = state.launch_failures + (not wait.held)
    again_at = max(now if wait.held else now + pause(failures), wait.not_before or now)
    unsettled_until = now + LAUNCH_SETTLES if wait.unsettled else state.launch_unsettled_until
    update: dict[str, object] = {
        "deadline": again_at,
        "look": False,
        "launch_failures": failures,
        "launch_unsettled_until": unsettled_until,
        "blocked": f"not launched yet: {wait.message}",
    }
    repeats = state.request is not None and unsettled_until is not None and now < unsettled_until
    if not repeats:
        update |= {"stage": Stage.PREPARING, "request": None, "attempt": state.attempt + 1}
    text = f"not launched: {wait.message}; tried again at {format_instant(again_at)}"
    return record(evolve(state, **update), now, text)
