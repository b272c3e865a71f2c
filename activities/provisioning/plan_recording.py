"""Records plans as they were carried out, with the inputs that `tenon replay` makes them from again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from activities.clock import utc_now
from activities.provisioning.claim_writer import Written
from activities.provisioning.plan_decision import PlanDecision
from activities.record.plan_inputs import InputKeeper
from activities.record.writer import NO_RECORD, RecordWriter, origin_of_activity
from tenon.messages.provisioning import PlanInput
from tenon.provisioning.plan_digest import plan_digest
from tenon.record.entries import Entry
from tenon.record.kept_inputs import KeptInputs
from tenon.record.plans import plan_entry
from tenon.scheduling.model import Plan, Problem


class PlanRecorder:
    """Writes an entry of the record for each plan."""

    def __init__(
        self,
        record: RecordWriter = NO_RECORD,
        inputs: InputKeeper | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``inputs``: keeps what plans are made from; None for nothing."""
        self._record = record
        self._inputs = inputs
        self._now = now
        self._recording: set[asyncio.Task[None]] = set()
        """Held here because the event loop holds its tasks weakly."""

    def write(self, plan_input: PlanInput, decision: PlanDecision, plan: Plan, written: Written) -> None:
        """Record the plan as it was carried out. If its inputs are kept, its entry follows when they are."""
        origin, now = origin_of_activity(plan_input.cluster), self._now()

        def make(kept_inputs: KeptInputs) -> Entry:
            why = dict(zip(map(id, decision.plan.claims), decision.explanations, strict=True))  # claims have no hash
            return plan_entry(
                origin,
                now,
                plan,
                batch=plan_input.batch,
                claims=written.names,
                explanations=[why[id(claim)] for claim in written.claims],
                pods=len(decision.pods),
                decision=plan_digest(decision.plan),
                inputs=kept_inputs,
                seconds=decision.took,
            )

        lacking = _not_replayable(decision, written)
        if self._inputs is None or lacking:
            self._record.write(partial(make, KeptInputs(lacking=lacking if self._inputs is not None else "")))
            return
        task = asyncio.create_task(self._keep_and_record(self._inputs, decision.problem, make), name="keep plan inputs")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def _keep_and_record(
        self, inputs: InputKeeper, problem: Problem, make: Callable[[KeptInputs], Entry]
    ) -> None:
        kept_inputs = KeptInputs(lacking="the worker ended before they were kept")
        try:
            kept_inputs = await inputs.keep(problem)
        finally:
            self._record.write(partial(make, kept_inputs))


def _not_replayable(decision: PlanDecision, written: Written) -> str:
    """Return why the engine would not make this plan again from the problem alone; empty if it would."""
    if decision.failed:
        return "the engine failed on some pods"
    if decision.plan.unreached:
        return "the engine's time ended before it reached all pods"
    if written.unwritten:
        return "not all NodeClaims of the plan could be written"
    if not decision.as_solved:
        return "some nodes of the engine's plan were held back, because EC2 refuses launches"
    return ""
