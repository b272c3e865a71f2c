"""How each activity may be tried: time-outs and retries in one table, so that a node's worst case can be read here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from tenon.lifecycle.messages import (
    ActivityName,
    BatchSummary,
    BindResult,
    CordonResult,
    DetachResult,
    DisruptionDecision,
    DisruptResult,
    DrainResult,
    ErrorType,
    InitializeResult,
    LaunchResult,
    Message,
    NodeClassResult,
    PlanResult,
    PrepareLaunchResult,
    RegisterResult,
    ReleaseInput,
    TerminateResult,
)
from tenon.lifecycle.steps import KeepRecorded, Withdrawn

LAUNCH_TIMEOUT = timedelta(minutes=5)
"""A launch that has no outcome in this time, because no worker serves it, is begun again by its workflow."""

TRIES = 10
"""One to two and a half minutes of failures: then the node says what blocks it, waits, and the step begins again. Time
in which no worker is there is no failure."""

_NEVER_AGAIN = [kind.value for kind in ErrorType]


DRAINING, ENDING = "draining", "ending"
"""Lanes: what waits long for pods, volumes and instances has slots of its own, so that it never holds up a launch."""
LANE_WITHIN = timedelta(minutes=10)
"""A task that no worker takes from a lane within this time fails and is scheduled again. After a rollback, an older
version serves no lanes: it schedules the same task on the common queue."""


@dataclass(frozen=True, slots=True)
class Options:
    """One row: the type of the result, the time for one try, the time for all tries, the pause between, the lane."""

    result: type[Message]
    try_for: timedelta
    give_up_after: timedelta | None = None
    heartbeat: timedelta | None = None
    first_pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(seconds=30)
    cancellation: ActivityCancellationType = ActivityCancellationType.TRY_CANCEL
    lane: str = ""
    tries: int = 0
    """After so many failures the workflow hears of the last one; 0: never."""

    @property
    def taken_within(self) -> timedelta | None:
        """How long a task may wait for a worker."""
        return LANE_WITHIN if self.lane else None

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of this row; typed failures are never tried again."""
        return RetryPolicy(
            initial_interval=self.first_pause,
            backoff_coefficient=2.0,
            maximum_interval=self.longest_pause,
            maximum_attempts=self.tries,
            non_retryable_error_types=_NEVER_AGAIN,
        )


def _seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


OPTIONS: dict[ActivityName, Options] = {
    # A worker that dies costs the time of one try: short where a node or a pod waits for it.
    # A launch waits for its turn inside EC2's limits: that takes time, and is no failure.
    ActivityName.PREPARE_LAUNCH: Options(PrepareLaunchResult, _seconds(180), heartbeat=_seconds(30)),
    ActivityName.LAUNCH: Options(LaunchResult, _seconds(180), LAUNCH_TIMEOUT, heartbeat=_seconds(30)),
    ActivityName.REGISTER: Options(RegisterResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.INITIALIZE: Options(InitializeResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.BIND: Options(BindResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.KEEP: Options(KeepRecorded, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.WITHDRAW: Options(Withdrawn, _seconds(30), first_pause=_seconds(0.2)),
    ActivityName.CORDON: Options(CordonResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.DRAIN: Options(DrainResult, _seconds(120), heartbeat=_seconds(45), lane=DRAINING, tries=TRIES),
    ActivityName.DETACH_VOLUMES: Options(
        DetachResult, _seconds(120), heartbeat=_seconds(45), lane=DRAINING, tries=TRIES
    ),
    ActivityName.TERMINATE: Options(TerminateResult, _seconds(150), heartbeat=_seconds(30), lane=ENDING, tries=TRIES),
    ActivityName.RELEASE: Options(ReleaseInput, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.AWAIT_BATCH: Options(BatchSummary, _seconds(660), longest_pause=_seconds(5)),
    ActivityName.PLAN: Options(PlanResult, _seconds(180), longest_pause=_seconds(10)),
    ActivityName.AWAIT_DISRUPTION: Options(DisruptionDecision, _seconds(660), longest_pause=_seconds(5)),
    ActivityName.DISRUPT: Options(DisruptResult, _seconds(60), _seconds(600)),
    ActivityName.RESOLVE_NODECLASS: Options(NodeClassResult, _seconds(60), longest_pause=_seconds(60)),
}
