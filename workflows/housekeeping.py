"""One sweep for lost things, as a workflow that a Temporal Schedule starts: its result is the sweep's report."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from tenon.evolve import evolve

with workflow.unsafe.imports_passed_through():
    from tenon.housekeeping.messages import COLLECT_GARBAGE, HousekeepingInput, HousekeepingResult

SWEEP_WITHIN = timedelta(minutes=10)
SILENCE = timedelta(minutes=3)
"""The longest time between heartbeats: one AWS call with its retries may take half of it."""
TRIES = 2
"""A sweep repeats nothing that is done, and the next one comes soon: only a lost worker is worth a second try."""


def housekeeping_id(cluster: str) -> str:
    """The sweeps' workflow; the Schedule adds the time to it."""
    return f"housekeeping/{cluster}"


def schedule_id(cluster: str) -> str:
    """The Schedule that starts them."""
    return f"housekeeping-{cluster}"


@workflow.defn(name="Housekeeping")
class HousekeepingWorkflow:
    """Runs the sweep once; what the sweep before left to the nodes' workflows is handed on to it."""

    @workflow.run
    async def run(self, begin: HousekeepingInput) -> HousekeepingResult:
        """Sweep, and answer with the report."""
        if workflow.has_last_completion_result():
            last = workflow.get_last_completion_result(HousekeepingResult)
            if last is not None:
                begin = evolve(begin, left_since=last.left_since, failed=last.failed)
        result: HousekeepingResult = await workflow.execute_activity(
            COLLECT_GARBAGE,
            begin,
            result_type=HousekeepingResult,
            start_to_close_timeout=SWEEP_WITHIN,
            heartbeat_timeout=SILENCE,
            retry_policy=RetryPolicy(maximum_attempts=TRIES, initial_interval=timedelta(seconds=10)),
            summary=begin.cluster,
        )
        workflow.set_current_details(_report(result))
        return result


def _report(result: HousekeepingResult) -> str:
    """The sweep as the Temporal UI shows it."""
    lines = [
        f"- {kind}: {row.ended} of {row.found} ended, {row.failed} failed, {row.put_off} put off"
        for kind, row in sorted(result.figures.items())
    ]
    lines += [f"- not read: {source}: {why}" for source, why in sorted(result.unread.items())]
    lines += [f"- {fault}" for fault in result.faults]
    return "\n".join(lines) or "nothing was lost"
