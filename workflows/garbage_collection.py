"""The workflow of one garbage collection sweep. A Temporal Schedule starts it, and its result is the sweep's report."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from tenon.evolve import evolve

with workflow.unsafe.imports_passed_through():
    from tenon.garbage_collection import page
    from tenon.messages.garbage_collection import COLLECT_GARBAGE, GarbageCollectionInput, GarbageCollectionResult

SWEEP_WITHIN = timedelta(minutes=10)
HEARTBEAT_TIMEOUT = timedelta(minutes=3)
"""The heartbeat timeout. One AWS call with its retries may take half of it."""
TRIES = 2
"""The maximum attempts of one sweep. A second attempt helps only after a lost worker: it skips work that is already
done, and the next scheduled sweep follows soon anyway."""


def garbage_collection_id(cluster: str) -> str:
    """The workflow id of the sweeps, to which the Schedule appends the start time."""
    return f"garbage-collection/{cluster}"


def schedule_id(cluster: str) -> str:
    """The id of the Schedule that starts the sweeps."""
    return f"garbage-collection-{cluster}"


@workflow.defn(name="GarbageCollection")
class GarbageCollectionWorkflow:
    """Runs one sweep and passes it what the previous sweep left to the NodeClaim workflows."""

    @workflow.run
    async def run(self, begin: GarbageCollectionInput) -> GarbageCollectionResult:
        """Run the sweep and return its report."""
        if workflow.has_last_completion_result():
            last = workflow.get_last_completion_result(GarbageCollectionResult)
            if last is not None:
                begin = evolve(begin, left_since=last.left_since, failed=last.failed)
        workflow.set_current_details("It compares Kubernetes, EC2 and Temporal.")
        result: GarbageCollectionResult = await workflow.execute_activity(
            COLLECT_GARBAGE,
            begin,
            result_type=GarbageCollectionResult,
            start_to_close_timeout=SWEEP_WITHIN,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=TRIES, initial_interval=timedelta(seconds=10)),
            summary="compares Kubernetes, EC2 and Temporal",
        )
        workflow.set_current_details(page.current_details(result))
        return result
