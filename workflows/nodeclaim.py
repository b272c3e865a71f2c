"""The workflow of one node, from launch to termination. `tenon.node` decides each step, and the workflow runs it.

`machine.next_step` determines the order of the commands, on which replay depends. The run continues as new each time
the node enters stage `live` after the workflow did something, the first time a minute later. An idle node therefore has
only a few history events, and a deploy or a rollback only has to decode its state.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeUpdate
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from tenon.apis.reasons import Reason, camel_case
    from tenon.messages.base import ActivityName, ErrorType, Message
    from tenon.messages.launch import Instance
    from tenon.messages.node import (
        Disrupt,
        DisruptAnswer,
        Keep,
        Operator,
        OperatorAnswer,
        Poke,
        RebootAnswer,
        RebootRequest,
    )
    from tenon.node import disruption_requests, machine, operator_help, operator_requests, page, reboot
    from tenon.node.state import NodeClaimInput, NodeClaimResult, NodeState, Stage, expiry
    from tenon.node.steps import DeadlinePassed, End, Failed, LeaveRequest, Run, Wait
    from tenon.node.timeline import result_of
    from workflows import activity_calls, continuing, names
    from workflows.operator_updates import update
    from workflows.options import OPTIONS
    from workflows.timer import Timer

MAX_HISTORY = 2000
"""The number of history events after which a run continues as new in any stage."""
LONG_HISTORY = 200
"""The number of history events after which the run of a live node continues as new even if its state is unchanged."""
CONTINUES_AFTER, MAX_CONTINUES_AFTER = timedelta(minutes=1), timedelta(minutes=2)
"""How long the run that started a node waits before it continues as new: until the timer that runs, if it is over
within the second time. Many nodes become live together, and the machine is busy with their pods then. A node that
leaves at once needs no second run."""

LATEST_EXPIRY = datetime(2200, 1, 1, tzinfo=UTC)
"""The latest expiry that is written as a search attribute. Elasticsearch stores no time after April 2262, and with one
the server would refuse the task of the workflow for ever."""


class _Searched(NamedTuple):
    """What of a node's state the search attributes follow."""

    stage: str
    instance: Instance | None
    expires: datetime | None
    blocked: bool
    reason: str


@workflow.defn(name="NodeClaim")
class NodeClaimWorkflow:
    """Takes a node through its stages: launch, register, initialize, bind, live, cordon, drain, terminate."""

    @workflow.init
    def __init__(self, begin: NodeClaimInput) -> None:
        self.state = begin.state or NodeState(
            claim=begin.claim,
            pool=begin.pool,
            first_run_id=workflow.info().first_execution_run_id,
            began_at=workflow.info().start_time,
        )
        self.at_start = self.state
        self.continues_at: datetime | None = None
        self.inbox: deque[Message] = deque()
        self.shown: _Searched | None = None
        self.timer = Timer()
        self.acted = False

    @workflow.run
    async def run(self, begin: NodeClaimInput) -> NodeClaimResult:
        """Run the node until it is terminated. A cancellation of the workflow asks the node to leave."""
        living = asyncio.create_task(self._live(begin))
        while True:
            try:
                return await asyncio.shield(living)
            except asyncio.CancelledError:
                if living.done() or workflow.cancellation_reason() is None:
                    raise  # no operator cancelled it: the worker evicts the workflow from its cache
                self.inbox.append(_cancellation(workflow.cancellation_reason() or ""))

    async def _live(self, begin: NodeClaimInput) -> NodeClaimResult:
        while True:
            self._take_inbox()
            self._show()
            if self._too_long():
                await workflow.wait_condition(workflow.all_handlers_finished)
                if self.inbox:
                    continue
                self._continue_as_new(begin)
            match machine.next_step(self.state, workflow.now()):
                case Run() as step:
                    await self._run(step)
                case Wait() as step:
                    if not self._should_continue_as_new():
                        await self._wait(step)
                    elif await self._paused(step):
                        await workflow.wait_condition(workflow.all_handlers_finished)
                        if not self.inbox:
                            self._continue_as_new(begin)
                case End():
                    await workflow.wait_condition(workflow.all_handlers_finished)
                    return result_of(self.state, workflow.now())

    def _continue_as_new(self, begin: NodeClaimInput) -> NoReturn:
        """Continue as new with the current state, and with what the page of the next run says first."""
        continuing.continue_as_new(page.next_input(begin, self.state))

    async def _run(self, step: Run) -> None:
        self.acted = True
        options = OPTIONS[step.activity]
        if options.local_for is not None and step.quick:
            event = await self._run_locally(step, options.result, options.local_for)
            if event is not None:
                self._apply(event)
                return
        task_queue = names.lane_queue(workflow.info().task_queue, options.lane)
        call = activity_calls.start(step.activity, step.input, options.result, step.summary, task_queue)
        if step.overtaken_by_force:
            await workflow.wait_condition(lambda: call.done() or self._force_waits())
            if not call.done():
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                return
        try:
            event = await call
        except ActivityError as error:
            kind = _type_of(error)
            event = Failed(
                activity=step.activity,
                message=str(error.cause or error),
                again=step.activity is ActivityName.LAUNCH and kind != ErrorType.CLAIM_GONE,
                not_managed=kind == ErrorType.NOT_MANAGED,
            )
        self._apply(event)

    async def _run_locally(self, step: Run, result: type[Message], within: timedelta) -> Message | None:
        """Try the step once as a local activity. Returns None if it failed: the activity has the retries."""
        try:
            event: Message = await workflow.execute_local_activity(
                step.activity.value,
                step.input,
                result_type=result,
                schedule_to_close_timeout=within,
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=step.summary,
            )
        except FailureError:  # of a local activity, the SDK does not wrap it in an ActivityError
            return None
        return event

    async def _wait(self, step: Wait) -> None:
        """Wait for an event or a timer. A timer that is over before ``step.until`` changes nothing."""
        if step.until is None:
            await workflow.wait_condition(lambda: bool(self.inbox))
            return
        if step.until > workflow.now():
            over_at = self.timer.serve(step.looks_at or step.until, step.slack, step.summary)
            await workflow.wait_condition(lambda: bool(self.inbox) or self.timer.is_over())
            if self.inbox or over_at < step.until:
                return
        self._apply(DeadlinePassed())

    async def _paused(self, step: Wait) -> bool:
        """Wait until the run may continue as new. Returns False if something else came first."""
        if self.at_start.stage is Stage.LIVE or self._has_grown():
            return True
        now = workflow.now()
        if self.continues_at is None:
            self.continues_at = now + CONTINUES_AFTER
            if (over_at := self.timer.over_at) is not None and over_at <= now + MAX_CONTINUES_AFTER:
                self.continues_at = over_at
        if now >= self.continues_at:
            return True
        if step.until is not None and step.until <= self.continues_at:
            await self._wait(step)
            return False
        summary = "Then the workflow continues as new, with a short history"
        over_at = self.timer.serve(self.continues_at, timedelta(), summary)
        await workflow.wait_condition(lambda: bool(self.inbox) or self.timer.is_over())
        return not self.inbox and over_at >= self.continues_at

    def _force_waits(self) -> bool:
        return any(isinstance(event, LeaveRequest) and event.force for event in self.inbox)

    def _take_inbox(self) -> None:
        while self.inbox:
            self._apply(self.inbox.popleft())

    def _apply(self, event: Message) -> None:
        before = self.state.stage
        self.state = machine.apply(self.state, event, workflow.now())
        if self.state.stage is not before:
            workflow.logger.info(
                "The node changed its stage", extra={"previous-stage": before.value, "stage": self.state.stage.value}
            )

    def _too_long(self) -> bool:
        """Whether the run must continue as new in the middle of a stage, such as a drain that is blocked for days, or
        because another version of the worker takes over.
        """
        return continuing.must_continue_as_new(MAX_HISTORY)

    def _should_continue_as_new(self) -> bool:
        # Whatever makes the node live, or changes when it expires, is followed by an activity.
        return self.state.stage is Stage.LIVE and (self.acted or self._has_grown())

    def _has_grown(self) -> bool:
        """Whether an idle run must continue as new although it has changed nothing."""
        return continuing.must_continue_as_new(LONG_HISTORY)

    def _show(self) -> None:
        """Update the details in the UI each time, and the search attributes only when their values changed."""
        workflow.set_current_details(page.current_details(self.state))
        if self.shown is None and self.at_start.instance is not None:
            self.shown = _searched(self.at_start)  # continue-as-new carries the attributes over
        if self.state.stage is Stage.ENDED and self.shown is not None and not self.shown.blocked:
            return  # that the workflow is completed says it, and each write of attributes is billed
        shown = _searched(self.state)
        if shown == self.shown or (self.shown is None and self._shown_by_start()):
            return
        self.shown = shown
        instance = self.state.instance
        updates: list[SearchAttributeUpdate[Any]] = [names.STAGE.value_set(shown.stage)]
        if self.state.pool:
            updates.append(names.POOL.value_set(self.state.pool))
        if instance is not None:
            updates += [
                names.INSTANCE.value_set(instance.id),
                names.INSTANCE_TYPE.value_set(instance.instance_type),
                names.ZONE.value_set(instance.zone),
                names.CAPACITY_TYPE.value_set(instance.capacity_type),
                names.PRICE.value_set(instance.price),
            ]
        if self.state.node_name:
            updates.append(names.NODE.value_set(self.state.node_name))
        if shown.reason:
            updates.append(names.REASON.value_set(camel_case(shown.reason)))
        elif self.state.stage is Stage.LIVE:  # it may have turned out not to be empty
            updates.append(names.REASON.value_unset())
        if shown.expires is not None:
            updates.append(names.EXPIRES.value_set(shown.expires))
        updates.append(names.BLOCKED.value_set(shown.blocked))
        workflow.upsert_search_attributes(updates)

    def _shown_by_start(self) -> bool:
        """Whether the attributes with which the workflow was started still say all that matters."""
        changed = self.state.blocked or self.at_start.blocked or self.state.instance is not None
        return not changed and visible_stage(self.state) == "launching"

    @workflow.signal(description=operator_help.POKE)
    def poke(self, poke: Poke) -> None:
        """Check the node again, because the node, its NodeClaim or its instance changed."""
        self.inbox.append(poke)

    @workflow.signal(description=f"{operator_help.DRAIN} {operator_help.WHO_SIGNAL}")
    def drain(self, operator: Operator | None = None) -> None:
        """Cordon, drain and terminate the node, respecting PodDisruptionBudgets."""
        self.inbox.append(operator_requests.drain(operator))

    @workflow.signal(description=f"{operator_help.FORCE_DRAIN} {operator_help.WHO_SIGNAL}")
    def force_drain(self, operator: Operator | None = None) -> None:
        """Like `drain`, but delete the pods at once, even if something protects them."""
        self.inbox.append(operator_requests.force_drain(operator))

    @workflow.signal(description=f"{operator_help.EXPIRE} {operator_help.WHO_SIGNAL}")
    def expire(self, operator: Operator | None = None) -> None:
        """Treat the node as expired now."""
        self.inbox.append(operator_requests.expire(operator))

    @workflow.signal(description=f"{operator_help.KEEP} {operator_help.KEEP_UNTIL}")
    def keep(self, keep: Keep) -> None:
        """Keep the node at least until the given time: neither disrupt nor expire it before."""
        self.inbox.append(keep)

    @update(
        name="drain",
        description=f"{operator_help.DRAIN} {operator_help.WHO_UPDATE}",
        hint=operator_help.HINT,
        why_invalid=operator_requests.why_invalid,
    )
    def ask_drain(self, operator: Operator) -> OperatorAnswer:
        """Cordon, drain and terminate the node, respecting PodDisruptionBudgets. Say who asks, and why."""
        return self._ask(operator_requests.drain(operator))

    @update(
        name="force_drain",
        description=f"{operator_help.FORCE_DRAIN} {operator_help.WHO_UPDATE}",
        hint=operator_help.HINT,
        why_invalid=operator_requests.why_invalid,
    )
    def ask_force_drain(self, operator: Operator) -> OperatorAnswer:
        """Like `drain`, but delete the pods at once, even if something protects them. Say who asks, and why."""
        return self._ask(operator_requests.force_drain(operator))

    @update(
        name="expire",
        description=f"{operator_help.EXPIRE} {operator_help.WHO_UPDATE}",
        hint=operator_help.HINT,
        why_invalid=operator_requests.why_invalid,
    )
    def ask_expire(self, operator: Operator) -> OperatorAnswer:
        """Treat the node as expired now. Say who asks, and why."""
        return self._ask(operator_requests.expire(operator))

    @update(
        name="keep",
        description=f"{operator_help.KEEP} {operator_help.KEEP_UNTIL}",
        hint=operator_help.KEEP_HINT,
        why_invalid=operator_requests.why_invalid,
    )
    def ask_keep(self, keep: Keep) -> OperatorAnswer:
        """Keep the node at least until the given time: neither disrupt nor expire it before. Say who asks, and why."""
        return self._ask(keep)

    def _ask(self, request: LeaveRequest | Keep) -> OperatorAnswer:
        answer = operator_requests.answer(self._foreseen(), request, workflow.now())
        if answer.accepted:
            self.inbox.append(request)
        return answer

    def _foreseen(self) -> NodeState:
        """The state once the queued events are applied, which happens between activities only, never while one runs."""
        state = self.state
        for event in self.inbox:
            state = machine.apply(state, event, workflow.now())
        return state

    @update(description=operator_help.DISRUPT, hint=operator_help.DISRUPT_HINT)
    def disrupt(self, command: Disrupt) -> DisruptAnswer:
        """Ask the node to leave for a disruption command. The answer says whether it accepts."""
        answer = disruption_requests.answer(self._foreseen(), command, workflow.now())
        if answer.accepted:
            self.inbox.append(command)
        return answer

    @update(name=names.REBOOT_UPDATE, description=operator_help.REBOOT, hint=operator_help.REBOOT_HINT)
    def reboot(self, request: RebootRequest) -> RebootAnswer:
        """Ask the node to reboot its machine in place. The answer says whether it does."""
        answer = reboot.answer(self._foreseen(), request)
        if answer.accepted:
            self.inbox.append(request)
        return answer

    @workflow.query(description="The node's whole state as JSON, with its timeline.")
    def status(self) -> NodeState:
        """The node's state, including its timeline."""
        return self.state


def _type_of(error: ActivityError) -> str | None:
    """The type of the ApplicationError that an activity raised, or None for other errors, such as a timeout."""
    return error.cause.type if isinstance(error.cause, ApplicationError) else None


def _cancellation(why: str) -> LeaveRequest:
    return LeaveRequest(
        reason=Reason.CANCELLED, detail=why or "the workflow was cancelled", actor="an operator, by a cancellation"
    )


def _searched(state: NodeState) -> _Searched:
    expires = expiry(state)
    return _Searched(
        stage=visible_stage(state),
        instance=state.instance,
        expires=min(expires, LATEST_EXPIRY) if expires is not None else None,
        blocked=bool(state.blocked),
        reason=state.leave.reason if state.leave else "",
    )


def visible_stage(state: NodeState) -> str:
    """The stage as a search attribute. It is coarser than the machine's stage, so that it changes less often."""
    match state.stage:
        case Stage.PREPARING | Stage.LAUNCHING:
            return "launching"
        case Stage.REGISTERING | Stage.INITIALIZING | Stage.BINDING:
            return "starting"
        case Stage.LIVE:
            return "live"
        case Stage.REBOOTING:
            return "rebooting"
        case Stage.ENDED:
            return "ended"
        case _:
            return "leaving"
