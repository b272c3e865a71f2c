"""The workflow, one per NodeRollout, that remembers how far new versions of nodes are.

The leader decides how a rollout goes on (`tenon/rollout/progress.py`), because it sees the cluster. The workflow keeps
its answer, writes it into the status, and waits. It looks again by time while a wave is under way or waits for a
window, and otherwise once a day.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.messages.base import ActivityName
    from tenon.messages.rollout import (
        AdvanceRolloutInput,
        PoolProgress,
        RolloutAction,
        RolloutAdvance,
        RolloutAnnouncement,
        RolloutAnswer,
        RolloutInput,
        RolloutOperator,
        RolloutRequest,
        RolloutWritten,
        WriteRolloutInput,
    )
    from tenon.rollout import page
    from tenon.rollout.announcing import announcements
    from tenon.rollout.requests import RolloutRequestError, requested, why_invalid
    from workflows import activity_calls
    from workflows.continuing import continue_as_new, must_continue_as_new
    from workflows.operator_updates import update
    from workflows.planner_call import PlannerCaller

MAX_HISTORY = 300
"""The number of history events after which a run continues as new."""
IDLE = timedelta(days=1)
"""How long a rollout without anything under way waits: its NodeRollout may be deleted while no replica leads."""
RETRY = timedelta(minutes=1)
"""How long to wait after the leader could not say how the rollout goes on."""


@workflow.defn(name="Rollout")
class RolloutWorkflow(PlannerCaller):
    """Rolls out what the NodePools of a NodeRollout become. Ends when the NodeRollout is gone."""

    @workflow.init
    def __init__(self, begin: RolloutInput) -> None:
        super().__init__(begin.plan_queue)
        self.begin = begin
        self.uid = begin.uid
        self.pools: list[PoolProgress] = list(begin.pools)
        self.changed = False
        """Something may have changed since the leader was asked last."""
        self.announced: list[PoolProgress] = self.pools
        """The state whose events are published."""
        self.requested = False
        """An operator asked for something that the status does not say yet."""

    @workflow.run
    async def run(self, begin: RolloutInput) -> None:
        """Run until the NodeRollout is gone."""
        while True:
            if self.requested and not await self._write():  # a pause must not wait for the leader
                return
            advance = await self._advance()
            if advance is not None and not advance.exists:
                return
            must_write = advance is not None and (not advance.written or self._announcements())
            if must_write and not await self._write():
                return
            workflow.set_current_details(page.current_details(begin.name, self.pools))
            await self._wait(advance)
            if must_continue_as_new(MAX_HISTORY):
                await workflow.wait_condition(workflow.all_handlers_finished)
                if not self.requested:  # the next run would take the request for written, and publish no event of it
                    continue_as_new(page.first_input(begin.cluster, begin.name, self.plan_queue, self.uid, self.pools))

    async def _advance(self) -> RolloutAdvance | None:
        """Ask the leader. An answer that a request of an operator outran is thrown away."""
        self.changed = False
        before = self.pools
        advance_input = AdvanceRolloutInput(
            cluster=self.begin.cluster, name=self.begin.name, uid=self.uid, pools=before
        )
        advance = await self.poll(ActivityName.ADVANCE_ROLLOUT, advance_input, RolloutAdvance, self.begin.headline)
        if self.pools is not before:
            self.changed = True
            return None if advance is not None and advance.exists else advance
        if advance is not None and advance.exists:
            self.uid, self.pools = advance.uid, list(advance.pools)
        return advance

    async def _write(self) -> bool:
        """Write the status. Return whether the NodeRollout still exists."""
        pools, news, self.requested = self.pools, self._announcements(), False
        write_input = WriteRolloutInput(
            cluster=self.begin.cluster, name=self.begin.name, uid=self.uid, pools=pools, announcements=news
        )
        result = await activity_calls.start(
            ActivityName.WRITE_ROLLOUT, write_input, RolloutWritten, self.begin.headline
        )
        self.announced = pools
        return result.exists

    def _announcements(self) -> list[RolloutAnnouncement]:
        return announcements(self.announced, self.pools)

    async def _wait(self, advance: RolloutAdvance | None) -> None:
        pause = RETRY
        if advance is not None:
            pause = timedelta(seconds=advance.look_again) if advance.look_again is not None else IDLE
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self.changed,
                timeout=pause,
                timeout_summary="Then Tenon looks at the rollout again",
            )

    @workflow.signal(description="Sent by Tenon when a NodePool, its class or the NodeRollout changes. No input.")
    def poke(self) -> None:
        """Look at the rollout again, because something changed."""
        self.changed = True

    @workflow.query(description="How far the rollout of each NodePool is, with the waves and their evidence.")
    def progress(self) -> list[PoolProgress]:
        """How far the rollout of each NodePool is."""
        return self.pools

    @update(description=f"{page.START} {page.WHO}", hint=page.HINT, why_invalid=why_invalid)
    def start(self, operator: RolloutOperator) -> RolloutAnswer:
        """Replace all nodes of a NodePool."""
        return self._request("start", operator)

    @update(description=f"{page.APPROVE} {page.WHO}", hint=page.HINT, why_invalid=why_invalid)
    def approve(self, operator: RolloutOperator) -> RolloutAnswer:
        """Let the wave begin that waits for an approval."""
        return self._request("approve", operator)

    @update(description=f"{page.PAUSE} {page.WHO}", hint=page.HINT, why_invalid=why_invalid)
    def pause(self, operator: RolloutOperator) -> RolloutAnswer:
        """Replace no more nodes for now."""
        return self._request("pause", operator)

    @update(description=f"{page.RESUME} {page.WHO}", hint=page.HINT, why_invalid=why_invalid)
    def resume(self, operator: RolloutOperator) -> RolloutAnswer:
        """Continue, or begin again with a version that failed."""
        return self._request("resume", operator)

    @update(description=f"{page.ABORT} {page.WHO}", hint=page.HINT, why_invalid=why_invalid)
    def abort(self, operator: RolloutOperator) -> RolloutAnswer:
        """Stop where the rollout is."""
        return self._request("abort", operator)

    @update(description=f"{page.ROLLBACK} {page.WHO}", hint=page.HINT, why_invalid=why_invalid)
    def rollback(self, operator: RolloutOperator) -> RolloutAnswer:
        """Go back to the last good version."""
        return self._request("rollback", operator)

    def _request(self, action: RolloutAction, operator: RolloutOperator) -> RolloutAnswer:
        names = [progress.pool for progress in self.pools]
        if operator.pool not in names:
            why = f"NodeRollout {self.begin.name} does not select NodePool {operator.pool}"
            return RolloutAnswer(accepted=False, message=why)
        place = names.index(operator.pool)
        try:
            request = RolloutRequest(action=action, operator=operator)
            progress = requested(self.pools[place], request, workflow.now())
        except RolloutRequestError as error:
            return RolloutAnswer(accepted=False, message=str(error))
        self.pools = [*self.pools[:place], progress, *self.pools[place + 1 :]]
        self.changed = self.requested = True
        return RolloutAnswer(accepted=True, message=progress.message)
