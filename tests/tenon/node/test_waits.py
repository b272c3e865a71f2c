"""A wait whose time has come changes the state. A workflow that waits in vain never yields, and its task fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product

import pytest

from tenon.messages.node import RebootRequest
from tenon.node import machine
from tenon.node.state import LEAVING_STAGES, Leave, NodeState, Reboot, RebootPhase, Stage
from tenon.node.steps import DeadlinePassed, Wait
from tests.tenon.node.launched import NOW, at_live

REBOOT = RebootRequest(operation_id="o", reason="DiskBroken", requested_at=NOW - timedelta(minutes=1), drain_seconds=0)
TIMES = (None, NOW - timedelta(seconds=30), NOW + timedelta(seconds=30))


def states(stage: Stage) -> Iterator[NodeState]:
    """Every combination of times that a node in this stage may have."""
    phases = tuple(RebootPhase) if stage is Stage.REBOOTING else (None,)
    spreads = TIMES if stage is Stage.LIVE else (None,)
    flags = (False, True)
    for deadline, expires, keep, waits, spread, expired, check, pool, phase, rebooted in product(
        TIMES, TIMES, TIMES, TIMES, spreads, flags, flags, ("", "default"), phases, flags
    ):
        yield at_live(
            stage=stage,
            pool=pool,
            deadline=deadline,
            expires_at=expires,
            keep_until=keep,
            expiry_waits_until=waits,
            spread_until=spread,
            expired=expired,
            check_now=check,
            leave=Leave(reason="drain", asked_at=NOW) if stage in LEAVING_STAGES else None,
            reboot=Reboot(request=REBOOT, phase=phase) if phase is not None else None,
            reboots=(REBOOT.requested_at,) if rebooted or phase is not None else (),
        )


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
def test_a_wait_whose_time_has_come_changes_the_state(stage: Stage) -> None:
    for state in states(stage):
        step = machine.next_step(state, NOW)
        if isinstance(step, Wait) and step.until is not None and step.until <= NOW:
            assert machine.apply(state, DeadlinePassed(), NOW) != state
