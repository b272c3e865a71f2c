"""The timeouts and retry policies of activities in one table, which shows the worst case for a node.

Only the sweep's activity is not in it: `workflows/garbage_collection.py` has its timeouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from tenon.messages.awaited_replacements import FoundReplacements
from tenon.messages.base import QUIET_POLL_SECONDS, ActivityName, ErrorType, Message
from tenon.messages.command_steps import MeasureResult
from tenon.messages.disruption import DisruptionDecision, DisruptResult, StepResult
from tenon.messages.forecast import ConsolidationForecast
from tenon.messages.launch import LaunchResult, PrepareLaunchResult
from tenon.messages.node_schedule import NodeScheduleResult
from tenon.messages.node_steps import (
    BindResult,
    CordonResult,
    DetachResult,
    DrainResult,
    ExpirationResult,
    InitializeResult,
    RegisterResult,
    ReleaseResult,
    TerminateResult,
)
from tenon.messages.nodeclass import NodeClassResult
from tenon.messages.provisioning import BatchSummary, PlanResult
from tenon.messages.reboot import BootRecord, FenceResult, RebootCheck, RebootDrainResult, RebootEnded, RebootReply
from tenon.messages.rollout import RolloutAdvance, RolloutWritten
from tenon.messages.teardown import (
    DrainClusterResult,
    EndedWorkflows,
    MarkResult,
    RemovedThings,
    Survey,
    TerminateRoundResult,
)
from tenon.node.steps import KeepRecorded, Withdrawn

LAUNCH_TIMEOUT = timedelta(minutes=5)
"""The workflow starts a launch again if it has no outcome after this time, for example because no worker serves it."""

WITHOUT_API_SERVER = timedelta(minutes=3)
"""After so long without success, a step of a teardown in Kubernetes has failed. The workflow decides what follows."""
TRIES = 10
"""The maximum attempts of a step: one to two and a half minutes of failures. After that the node reports what blocks
it, waits, and starts the step again. Time without a running worker does not count as a failure."""

_NEVER_AGAIN = [kind.value for kind in ErrorType]


LOCAL_FOR = timedelta(seconds=5)
"""Less than the 8 seconds after which Temporal's SDK reports that a workflow task with local activities goes on."""

VALIDATED_WITHIN = timedelta(minutes=10)
"""How long one leader may take to validate a command. After that the command asks whichever leader serves, because a
new leader announces itself only to the commands that the disruption workflow knows, and someone may have terminated
that workflow."""

POLL_FOR = timedelta(seconds=QUIET_POLL_SECONDS + 60)
"""A leader that gets no call asks for one within seconds, so a call that was lost does not last this long."""

COMMON = ""
"""The lane of the task queue that workflows share with most activities."""
CORDONING, DRAINING, ENDING = "cordoning", "draining", "ending"
"""Lanes: the activities of nodes that leave have their own worker slots, so that they never delay a launch. Hundreds of
nodes may leave at once, and many wait long for pods, volumes or instances."""
TEARDOWN = "teardown"
"""The lane of a teardown and its activities. A worker serves it for one cluster; so does `tenon teardown` itself if the
cluster has no worker any more."""
PLANNING = "plan"
"""The lane that only the leader serves, because what these activities need is in its memory."""


@dataclass(frozen=True, slots=True)
class Options:
    """One row: the type of the result, the time for one attempt and for all attempts, the pauses between, the lane."""

    result: type[Message]
    try_for: timedelta
    give_up_after: timedelta | None = None
    heartbeat: timedelta | None = None
    first_pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(seconds=30)
    cancellation: ActivityCancellationType = ActivityCancellationType.TRY_CANCEL
    lane: str = COMMON
    tries: int = 0
    """The maximum attempts, after which the workflow gets the last failure; 0 means no limit."""
    local_for: timedelta | None = None
    """Run the step as a local activity first, for at most this time. If it fails or takes longer, run the activity.

    A local activity needs no task of its own, so it costs Temporal less. But it holds the workflow task open, so an
    outage of the API server must not prolong it.
    """

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of this row. It never retries the failures in `ErrorType`."""
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
    # A worker that dies costs the time of one attempt, so attempts are short where a node or a pod waits for them. A
    # launch waits for its turn within EC2's rate limits. That takes time and is not a failure.
    ActivityName.PREPARE_LAUNCH: Options(PrepareLaunchResult, _seconds(180), heartbeat=_seconds(30)),
    ActivityName.LAUNCH: Options(LaunchResult, _seconds(180), LAUNCH_TIMEOUT, heartbeat=_seconds(30)),
    ActivityName.REGISTER: Options(
        RegisterResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES, local_for=LOCAL_FOR
    ),
    # These two bind pods, and wait before and after for watches that are behind (activities/node/binding.py).
    ActivityName.INITIALIZE: Options(
        InitializeResult, _seconds(60), first_pause=_seconds(0.2), tries=TRIES, local_for=LOCAL_FOR
    ),
    ActivityName.BIND: Options(BindResult, _seconds(60), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.KEEP: Options(KeepRecorded, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.WITHDRAW: Options(Withdrawn, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.CHECK_EXPIRATION: Options(ExpirationResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    # A node without pods is also drained in it.
    ActivityName.CORDON: Options(CordonResult, _seconds(60), first_pause=_seconds(0.2), lane=CORDONING, tries=TRIES),
    ActivityName.DRAIN: Options(DrainResult, _seconds(120), heartbeat=_seconds(45), lane=DRAINING, tries=TRIES),
    ActivityName.DETACH_VOLUMES: Options(
        DetachResult, _seconds(120), heartbeat=_seconds(45), lane=DRAINING, tries=TRIES
    ),
    ActivityName.TERMINATE: Options(TerminateResult, _seconds(150), heartbeat=_seconds(30), lane=ENDING, tries=TRIES),
    ActivityName.RELEASE: Options(ReleaseResult, _seconds(30), first_pause=_seconds(0.2), lane=CORDONING, tries=TRIES),
    ActivityName.FENCE: Options(FenceResult, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.DRAIN_FOR_REBOOT: Options(
        RebootDrainResult, _seconds(120), heartbeat=_seconds(45), lane=DRAINING, tries=TRIES
    ),
    ActivityName.RECORD_BOOT: Options(BootRecord, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    # Once: EC2 may have accepted what has no answer, and the workflow watches the machine before it asks again.
    ActivityName.REBOOT: Options(RebootReply, _seconds(90), heartbeat=_seconds(30), tries=1),
    ActivityName.CHECK_REBOOT: Options(RebootCheck, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.END_FAILED_REBOOT: Options(RebootEnded, _seconds(30), first_pause=_seconds(0.2), tries=TRIES),
    ActivityName.AWAIT_BATCH: Options(BatchSummary, POLL_FOR, longest_pause=_seconds(5), lane=PLANNING),
    ActivityName.PLAN: Options(PlanResult, _seconds(180), longest_pause=_seconds(10), lane=PLANNING),
    ActivityName.AWAIT_DISRUPTION: Options(DisruptionDecision, POLL_FOR, longest_pause=_seconds(5), lane=PLANNING),
    ActivityName.VALIDATE_COMMAND: Options(
        StepResult, _seconds(60), VALIDATED_WITHIN, longest_pause=_seconds(5), lane=PLANNING
    ),
    ActivityName.TAINT_CANDIDATES: Options(StepResult, _seconds(30), _seconds(600)),
    ActivityName.CREATE_REPLACEMENTS: Options(StepResult, _seconds(30), _seconds(600)),
    ActivityName.AWAIT_REPLACEMENTS: Options(StepResult, _seconds(30), _seconds(600)),
    # An attempt that must wait fails, because a pause between attempts holds no worker slot.
    ActivityName.SURGE: Options(StepResult, _seconds(60), longest_pause=_seconds(10)),
    ActivityName.CHECK_CANDIDATES: Options(StepResult, _seconds(30), _seconds(600)),
    ActivityName.DISRUPT: Options(DisruptResult, _seconds(60), _seconds(600)),
    ActivityName.REQUEST_REBOOT: Options(DisruptResult, _seconds(60), _seconds(600)),
    ActivityName.FINISH_COMMAND: Options(StepResult, _seconds(300), heartbeat=_seconds(30)),
    ActivityName.FIND_REPLACEMENTS: Options(FoundReplacements, _seconds(30), _seconds(600)),
    ActivityName.SETTLE_REPLACEMENTS: Options(StepResult, _seconds(60)),
    ActivityName.MEASURE_SAVING: Options(
        MeasureResult, _seconds(60), _seconds(600), longest_pause=_seconds(5), lane=PLANNING
    ),
    ActivityName.ADVANCE_ROLLOUT: Options(
        RolloutAdvance, _seconds(60), _seconds(600), longest_pause=_seconds(10), lane=PLANNING
    ),
    ActivityName.WRITE_ROLLOUT: Options(RolloutWritten, _seconds(30), longest_pause=_seconds(30)),
    # A change that no leader heard of for so long is an old one: the leader goes by the clock.
    ActivityName.APPLY_SCHEDULE: Options(
        NodeScheduleResult, _seconds(30), _seconds(600), longest_pause=_seconds(10), lane=PLANNING
    ),
    # A person waits for the answer, and may ask again.
    ActivityName.FORECAST: Options(
        ConsolidationForecast, _seconds(90), _seconds(120), longest_pause=_seconds(5), lane=PLANNING
    ),
    ActivityName.RESOLVE_NODECLASS: Options(NodeClassResult, _seconds(60), longest_pause=_seconds(60)),
    ActivityName.SURVEY_CLUSTER: Options(Survey, _seconds(180), heartbeat=_seconds(60), lane=TEARDOWN, tries=TRIES),
    # The API server may be gone with the cluster. The teardown then goes on without it, once its drain time is over.
    ActivityName.STOP_BUYING: Options(
        MarkResult, _seconds(60), WITHOUT_API_SERVER, heartbeat=_seconds(30), lane=TEARDOWN
    ),
    ActivityName.DRAIN_CLUSTER: Options(
        DrainClusterResult, _seconds(60), WITHOUT_API_SERVER, heartbeat=_seconds(30), lane=TEARDOWN
    ),
    ActivityName.REMOVE_FINALIZERS: Options(
        RemovedThings, _seconds(60), WITHOUT_API_SERVER, heartbeat=_seconds(30), lane=TEARDOWN
    ),
    # Without a limit: what a worker fails to do, perhaps because it is cut off, `tenon teardown` itself may do.
    ActivityName.TERMINATE_CLUSTER: Options(TerminateRoundResult, _seconds(300), heartbeat=_seconds(60), lane=TEARDOWN),
    ActivityName.REMOVE_RESOURCES: Options(RemovedThings, _seconds(600), heartbeat=_seconds(60), lane=TEARDOWN),
    ActivityName.END_WORKFLOWS: Options(EndedWorkflows, _seconds(300), heartbeat=_seconds(60), lane=TEARDOWN),
}
if without := set(ActivityName) - set(OPTIONS):
    raise TypeError(f"the activity {min(without)} has no options: add a row to workflows/options.py")
