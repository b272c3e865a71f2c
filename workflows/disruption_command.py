"""The workflow of one disruption command. Empty nodes are asked to leave, others are replaced first, or reboot.

A command that moves pods keeps new pods away from its candidates and waits until everything that comes in their place
is ready (DIS-60 to DIS-65). If anything fails before the candidates are asked to leave, it undoes what it did. A
candidate that leaves for another reason meanwhile is not a failure: its replacement serves its pods.

A command of a NodePool that asks for approval waits for a person before all this, for days if need be. It has touched
nothing then. Once it is approved, it is validated like a command that was just decided.

A node for which there is no room beside its replacement leaves first. Its command stays open until the replacement
runs, so that budgets count the node all that time, and survives every restart of a worker meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from tenon.apis.reasons import traits_of
    from tenon.disruption.commands import approval_answers, command_page
    from tenon.disruption.commands.awaited_replacements import (
        GIVEN_UP_PAUSE,
        LISTED_FOR,
        REPORT_EVERY,
        Outcome,
        Wait,
        is_idle,
        judge,
        pause_before,
    )
    from tenon.disruption.commands.leaving_together import VALIDATION_DELAY
    from tenon.disruption.history.savings import total
    from tenon.errors import TenonError
    from tenon.evolve import evolve
    from tenon.messages.base import ActivityName, Message
    from tenon.messages.disruption import (
        REBOOT,
        REFUSED_HOURS,
        Approval,
        ApprovalAnswer,
        ApprovedReport,
        AwaitedReplacement,
        AwaitedReport,
        CommandProgress,
        DisruptInput,
        DisruptionCommand,
        DisruptResult,
        FindReplacementsInput,
        FinishInput,
        FoundReplacements,
        MeasuredSaving,
        MeasureInput,
        MeasureResult,
        Postponement,
        Refusal,
        ReplacementsInput,
        SavingReport,
        SettleReplacementsInput,
        StepResult,
    )
    from tenon.messages.node import Operator, OperatorAnswer
    from tenon.money import per_hour
    from tenon.sentences import counted, shortened
    from workflows import names
    from workflows.options import OPTIONS
    from workflows.planner_call import PlannerCaller

REPLACEMENTS_WITHIN = timedelta(minutes=10)
"""How long the replacements may take to be initialized (DIS-65)."""
CHECK_AGAIN = timedelta(seconds=60)
"""How long a command waits for a signal about its replacements before it looks at them anyway."""
SURGE_WITHIN = timedelta(minutes=10)
"""How long Deployments may take to start their new pods."""
FAILED_PAUSE = timedelta(minutes=5)
"""How long the candidates of a command that failed are left alone."""
UNTOUCHED_PAUSE = timedelta(seconds=30)
"""The same if the command failed before it touched anything, because the cluster had changed since the decision."""
CANCELLED = "an operator cancelled it"
UNDONE = "what it had begun is undone"
MAX_REASON = 300
"""The most characters of the reason of a cancellation."""

Answer = TypeVar("Answer", bound=Message)


class CommandFailedError(TenonError):
    """A step says that the command cannot go on. The command is undone, and its result says why."""


@workflow.defn(name="DisruptionCommand")
class DisruptionCommandWorkflow(PlannerCaller):
    """Runs one command. Its result says which candidates leave."""

    @workflow.init
    def __init__(self, begin: DisruptInput) -> None:
        super().__init__(begin.plan_queue)
        self.begin = begin
        self.timeline: list[str] = list(begin.awaited.timeline) if begin.awaited is not None else []
        self.waits = ""
        self.cancelled = False
        self.cancelled_because = ""
        self.replacements_changed = False
        """A signal said that a replacement is initialized or leaves, or that a candidate is gone, and no check has
        begun since."""
        self.saving = begin.command.saving
        """Dollars an hour by which the command is found."""
        self.reached: float | None = None
        """Dollars an hour that it saves; None before that is known."""
        self.undone = ""
        """Why it was undone, in a clause."""
        self.prepared = False
        """Something of the command may be in the cluster, so that a failure must be undone."""
        self.approve_until: datetime | None = None
        """When it counts as refused, while it waits for a person."""
        self.approval: Approval | None = None
        """How that wait ended."""
        self.refused_hours = REFUSED_HOURS
        self.withdrawn = ""
        """Why nothing asks for the command any more."""

    @workflow.run
    async def run(self, begin: DisruptInput) -> DisruptResult:
        """Return which candidates accepted and which refused. A cancellation undoes the command after its current step.

        No cancellation interrupts a step.
        """
        command = begin.command
        running = asyncio.create_task(self._carry_out(command))
        while True:
            try:
                result = await asyncio.shield(running)
            except asyncio.CancelledError:
                if running.done() or workflow.cancellation_reason() is None:
                    raise  # no operator cancelled it: the worker evicts the workflow from its cache
                self.cancelled_because = shortened(workflow.cancellation_reason() or "", MAX_REASON)
                self.cancelled = True
                continue
            if not (result.accepted or result.leaving or self.begin.command.decision == REBOOT):
                self._show_saving(0.0)  # the list of commands that save something has none that failed
            return result

    @workflow.query(description="What the command has done, a line each, and what it waits for.")
    def progress(self) -> CommandProgress:
        """What the command has done, and what it waits for."""
        return CommandProgress(
            timeline=self.timeline,
            waits=self.waits,
            approve_until=self.approve_until if self.approval is None else None,
            approval=self.approval,
        )

    @workflow.signal(description="Sent by Tenon: a replacement is initialized, leaves or is gone. Looks at them again.")
    def replacement_changed(self, claim: str) -> None:  # noqa: ARG002 - the name is for readers of the history
        """Receive that a replacement is initialized, leaves or is gone, or that a candidate that left first is gone."""
        self.replacements_changed = True

    @workflow.update(description=command_page.APPROVE)
    def approve(self, operator: Operator) -> OperatorAnswer:
        """Approve a command that waits for it. Say who approves, and why."""
        answer = self._answer_to_person()
        if answer.accepted:
            self.approval = approval_answers.approved(operator, workflow.now())
        return answer

    @workflow.update(description=command_page.REFUSE)
    def refuse(self, refusal: Refusal) -> OperatorAnswer:
        """Refuse a command that waits for approval. Say who refuses, and why."""
        answer = self._answer_to_person()
        if answer.accepted:
            self.approval = approval_answers.refused(refusal, workflow.now())
            self.refused_hours = refusal.hours
        return answer

    @approve.validator
    def _validate_approval(self, operator: Operator) -> None:
        if why := approval_answers.why_invalid(operator):
            raise ValueError(why)

    @refuse.validator
    def _validate_refusal(self, refusal: Refusal) -> None:
        if why := approval_answers.why_invalid(refusal):
            raise ValueError(why)

    @workflow.signal(description="Sent by Tenon: nothing asks for the command any more. One that awaits approval ends.")
    def withdraw(self, why: str) -> None:
        """Receive that nothing asks for the command any more. Once it has begun, its own steps notice that."""
        self.withdrawn = self.withdrawn or why

    def _answer_to_person(self) -> OperatorAnswer:
        ends = self._cancellation() if self.cancelled else self.withdrawn
        return approval_answers.answer_to(
            asks=self.begin.command.approval is not None, approval=self.approval, ends=ends
        )

    async def _carry_out(self, command: DisruptionCommand) -> DisruptResult:
        self._show("")
        if command.approval is None or self.begin.awaited is not None:
            return await self._act(command)
        approval = await self._await_approval(timedelta(seconds=command.approval.seconds))
        if approval.answer is ApprovalAnswer.CANCELLED:
            return evolve(await self._undo(self._cancellation()), approval=approval)
        self._record(approval.text)
        result = await (self._act(command) if approval.answer is ApprovalAnswer.APPROVED else self._end(approval))
        await workflow.wait_condition(workflow.all_handlers_finished)
        return evolve(result, approval=approval)

    async def _await_approval(self, within: timedelta) -> Approval:
        """Wait for a person, for one timer. Return how that ended."""
        since = workflow.now()
        self.approve_until = since + within
        self._record(f"waits for approval until {self.approve_until:%Y-%m-%d %H:%M:%S} UTC")
        self._show("waits for approval")
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self.approval is not None or self.cancelled or bool(self.withdrawn),
                timeout=within,
                timeout_summary="Nobody approved the command: it counts as refused",
            )
        approval = self.approval or self._unanswered(workflow.now())
        self.approval = evolve(approval, seconds=(approval.at - since).total_seconds())
        return self.approval

    def _unanswered(self, now: datetime) -> Approval:
        """Return why the wait ended without an answer."""
        if self.cancelled:
            return approval_answers.cancelled(self._cancellation(), now)
        withdrawn = self.withdrawn
        return approval_answers.stale(withdrawn, now) if withdrawn else approval_answers.unanswered(now)

    async def _end(self, approval: Approval) -> DisruptResult:
        """End a command that was not approved. It has touched nothing."""
        self.undone = approval.text
        claims = self._names()
        if approval.answer is not ApprovalAnswer.STALE:
            pause = approval_answers.pause_after(approval, self.refused_hours)
            await self._postpone(claims, pause, refused=approval.text)
        return DisruptResult(refused=dict.fromkeys(claims, approval.text), failure=approval.text)

    async def _act(self, command: DisruptionCommand) -> DisruptResult:
        if self.begin.awaited is not None:
            return await self._await_replacement(self.begin.awaited)
        if command.decision == REBOOT:
            return await self._reboot()
        return await (self._replace_and_remove(command) if command.moves_pods else self._remove_empty_nodes())

    async def _reboot(self) -> DisruptResult:
        """Ask the node to reboot in place. Its own workflow drains it, and looks after it from then on (N15-153)."""
        try:
            await self._validate()
            result = await self._run(ActivityName.REQUEST_REBOOT, self.begin, DisruptResult)
        except CommandFailedError as error:
            return await self._undo(str(error))
        except ActivityError as error:
            return await self._undo(str(error.cause or error))
        self._record(f"asked {counted(len(result.accepted), 'node')} to reboot")
        for claim, why in sorted(result.refused.items()):
            self._record(f"NodeClaim {claim}: {why}")
        await self._postpone(sorted(result.refused), FAILED_PAUSE)
        return result

    async def _validate(self) -> StepResult:
        if self.cancelled:
            raise CommandFailedError(self._cancellation())
        valid = await self.call(ActivityName.VALIDATE_COMMAND, self.begin, StepResult, self._summary())
        if self.approval is not None:
            valid = await self._validate_again(valid, self.approval.at + approval_answers.BUDGETS_WITHIN)
        if valid.failure:
            raise CommandFailedError(valid.failure)
        if self.approval is not None:
            command = valid.instead or self.begin.command
            claims = [candidate.claim for candidate in command.candidates]
            await self._report(
                "approved", ApprovedReport(command=command.id, claims=claims, moves_pods=command.moves_pods)
            )
        return valid

    async def _validate_again(self, valid: StepResult, until: datetime) -> StepResult:
        """Wait until the budgets, disruption windows and freezes let an approved command start."""
        pause = approval_answers.FIRST_RETRY
        while valid.waits:
            if workflow.now() >= until:
                return StepResult(failure=f"it was approved, but {valid.waits}")
            self._show(f"is approved and waits: {valid.waits}")
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self.cancelled or bool(self.withdrawn),
                    timeout=pause,
                    timeout_summary="Tenon checks whether the approved command may start",
                )
            if self.cancelled or self.withdrawn:
                return StepResult(failure=self._cancellation() if self.cancelled else self.withdrawn)
            pause = approval_answers.next_retry(pause)
            valid = await self.call(ActivityName.VALIDATE_COMMAND, self.begin, StepResult, self._summary())
        return valid

    async def _remove_empty_nodes(self) -> DisruptResult:
        if self.approval is not None:
            try:
                valid = await self._validate()
            except CommandFailedError as error:
                return await self._undo(str(error))
            except ActivityError as error:
                return await self._undo(str(error.cause or error))
            self.begin = evolve(self.begin, command=valid.instead or self.begin.command)
        self._show("asks its nodes to leave, if they are still empty")
        result = await self._ask()
        self._record_answers(result)
        if result.refused:
            await self._report("settled", sorted(result.refused))
        if result.prices:
            self._show_saving(sum(result.prices.values()))
        return result

    def _record_answers(self, result: DisruptResult) -> None:
        saving = f", {per_hour(sum(result.prices.values()))}" if result.prices else ""
        self._record(f"asked {counted(len(result.accepted), 'node')} to leave{saving}")
        for claim, why in sorted(result.refused.items()):
            self._record(f"NodeClaim {claim}: {why}")

    def _show_saving(self, saving: float) -> None:
        """Let the command be found by what it saves, and say it on the page."""
        self.reached = saving
        self._show("")
        if round(saving, 4) != round(self.saving, 4):
            self.saving = saving
            workflow.upsert_search_attributes([names.SAVING.value_set(round(saving, 6))])

    async def _replace_and_remove(self, command: DisruptionCommand) -> DisruptResult:
        try:
            await self._prepare(command)
        except CommandFailedError as error:
            return await self._undo(str(error))
        except ActivityError as error:
            return await self._undo(str(error.cause or error))
        asked_at = workflow.now()
        try:
            result = evolve(await self._ask(), approval=self.approval)
        except ActivityError as error:
            return await self._undo(str(error.cause or error), may_leave=True)
        stay = sorted(set(result.refused) - set(result.leaving))
        self._record_answers(result)
        # What leaves for another reason needs its replacement all the same.
        await self._finish(stay, undo=not (result.accepted or result.leaving))
        await self._postpone(stay, FAILED_PAUSE)
        leaving_claims = sorted({*result.accepted, *result.leaving})
        if leaving_claims and self.begin.command.terminate_first is not None:
            return await self._await_replacement(AwaitedReplacement(since=asked_at, result=result))
        if leaving_claims and command.terminate_first is not None:
            await self._report("replaced", leaving_claims)  # its replacements started first after all
        if leaving_claims:
            return evolve(result, saving=await self._measure(leaving_claims))
        return result

    async def _await_replacement(self, awaited: AwaitedReplacement) -> DisruptResult:
        """Wait until what replaces a node that left first runs. Budgets count the node until then (N15-191)."""
        command = self.begin.command
        reported = await self._report_awaited(awaited)
        while True:
            self.replacements_changed = False
            replacements = await self._find_replacements(awaited)
            now = workflow.now()
            if awaited.gone_at is None and not replacements.leaving:
                awaited = evolve(awaited, gone_at=now, checks=0)
                self._record(f"{', '.join(self._names())} is gone")
                reported = await self._report_awaited(awaited)
            wait = judge(command, awaited, replacements, now)
            if self.cancelled and wait.outcome is None:
                wait = Wait(Outcome.CANCELLED, self._cancellation())
            if wait.outcome is not None:
                return await self._settle(awaited, replacements, wait.outcome, wait.text)
            idle_since = (awaited.idle_since or now) if is_idle(command, replacements) else None
            awaited = evolve(awaited, checks=awaited.checks + 1, idle_since=idle_since)
            if now >= reported + REPORT_EVERY:
                reported = await self._report_awaited(awaited)
            self._show(wait.text)
            if workflow.info().is_continue_as_new_suggested():
                awaited = evolve(awaited, timeline=self.timeline)
                begin = command_page.first_input(self.begin.cluster, self.begin.command, self.plan_queue)
                workflow.continue_as_new(evolve(begin, awaited=awaited))
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self.replacements_changed or self.cancelled,
                    timeout=pause_before(awaited, workflow.now()),
                    timeout_summary="Tenon looks for the replacement again",
                )

    async def _find_replacements(self, awaited: AwaitedReplacement) -> FoundReplacements:
        find_input = FindReplacementsInput(cluster=self.begin.cluster, command=self.begin.command, since=awaited.since)
        try:
            return await self._run(ActivityName.FIND_REPLACEMENTS, find_input, FoundReplacements)
        except ActivityError as error:
            self._record(f"could not look for the replacement: {error.cause or error}")
            return FoundReplacements(leaving=self._names() if awaited.gone_at is None else [], waiting_pods=1)

    async def _settle(
        self, awaited: AwaitedReplacement, replacements: FoundReplacements, outcome: Outcome, text: str
    ) -> DisruptResult:
        """Say what became of the replacement, and let budgets count the cluster as it is."""
        self._record(text)
        command = self.begin.command
        gone_for = workflow.now() - awaited.gone_at if awaited.gone_at is not None else timedelta()
        settle_input = SettleReplacementsInput(
            cluster=self.begin.cluster,
            command=command,
            outcome=outcome,
            text=text,
            claims=[*replacements.running, *replacements.starting],
            seconds=gone_for.total_seconds(),
        )
        await self._run(ActivityName.SETTLE_REPLACEMENTS, settle_input, StepResult)
        if outcome is Outcome.GIVEN_UP:
            await self._report_awaited(awaited, GIVEN_UP_PAUSE)
        else:
            await self._report("replaced", self._names())
        return evolve(awaited.result, replaced_by=replacements.running, replacement=text)

    async def _report_awaited(self, awaited: AwaitedReplacement, listed_for: timedelta = LISTED_FOR) -> datetime:
        """Ask the disruption workflow to count the node. Return the time."""
        command = self.begin.command
        leaving_claims = {*awaited.result.accepted, *awaited.result.leaving}
        report = AwaitedReport(
            command=command.id,
            reason=command.reason,
            pools={
                candidate.claim: candidate.pool for candidate in command.candidates if candidate.claim in leaving_claims
            },
            seconds=listed_for.total_seconds(),
            candidates_gone=awaited.gone_at is not None,
        )
        await self._report("awaits_replacement", report)
        return workflow.now()

    def _names(self) -> list[str]:
        return sorted(candidate.claim for candidate in self.begin.command.candidates)

    async def _measure(self, leaving_claims: list[str]) -> MeasuredSaving | None:
        """Compare what the command saves with what was predicted, and report it to the disruption workflow."""
        begin = self.begin
        measure_input = MeasureInput(cluster=begin.cluster, command=begin.command, leaving_claims=leaving_claims)
        try:
            result = await self.call(ActivityName.MEASURE_SAVING, measure_input, MeasureResult, self._summary())
        except ActivityError as error:
            self._record(f"what it saves is not known: {error.cause or error}")
            return None
        if not result.pools:
            self._record("what it saves is not known, because a price is not known")
            return None
        saving = total(result.pools.values())
        self._record(f"saves {per_hour(saving.reached)}; {per_hour(saving.predicted)} was predicted")
        if traits_of(begin.command.reason).counts_savings:
            report = SavingReport(command=begin.command.id, started=workflow.info().start_time, pools=result.pools)
            await self._report("saved", report)
        self._show_saving(saving.reached)
        return saving

    async def _prepare(self, command: DisruptionCommand) -> None:
        if command.graceful:
            self._record("waits before it is validated")
            await self._sleep(VALIDATION_DELAY, "Tenon checks whether the command is still right")
        valid = await self._validate()
        if valid.instead is not None:
            self.begin = evolve(self.begin, command=valid.instead)
            command = valid.instead
            why = (
                "its pods need other nodes by now" if self.approval is None else "the first ones were planned long ago"
            )
            self._record(f"takes other replacements, because {why}")
        self.prepared = True
        await self._step(ActivityName.TAINT_CANDIDATES)
        self._record("new pods are kept away from the candidates")
        if command.replacements:
            await self._step(ActivityName.CREATE_REPLACEMENTS)
            self._record(f"created {', '.join(replacement.name for replacement in command.replacements)}")
            await self._await_replacements(command)
        if command.surge:
            await self._start_new_pods_first(command)
        await self._await_others(command)
        await self._step(ActivityName.CHECK_CANDIDATES)

    async def _await_others(self, command: DisruptionCommand) -> None:
        """Let other commands of the same pass taint their nodes, so that no pod goes to one of these."""
        if command.leaves_from is None:
            return
        pause = command.leaves_from - workflow.now()
        if pause > timedelta():
            self._show("waits until other commands that were decided with it keep new pods away too")
            await self._sleep(pause, "Tenon evicts the pods, together with other commands")

    async def _start_new_pods_first(self, command: DisruptionCommand) -> None:
        """Let Deployments that ask for it start their new pods before the old ones stop."""
        if self.cancelled:
            raise CommandFailedError(self._cancellation())
        self._show(f"waits for new pods of {', '.join(command.surge)}")
        replacements_input = ReplacementsInput(
            cluster=self.begin.cluster, command=command, until=workflow.now() + SURGE_WITHIN
        )
        if failure := (await self._run(ActivityName.SURGE, replacements_input, StepResult)).failure:
            raise CommandFailedError(failure)
        self._record(f"{', '.join(command.surge)} had their new pods ready before the old ones left")

    async def _await_replacements(self, command: DisruptionCommand) -> None:
        """Look at the replacements when a signal says that one changed, and at least every `CHECK_AGAIN`.

        No activity runs in between, because launching the replacements needs the worker slot that it would hold.
        """
        until = workflow.now() + REPLACEMENTS_WITHIN
        replacements_input = ReplacementsInput(cluster=self.begin.cluster, command=command, until=until)
        while True:
            if self.cancelled:
                raise CommandFailedError(self._cancellation())
            self.replacements_changed = False
            result = await self._run(ActivityName.AWAIT_REPLACEMENTS, replacements_input, StepResult)
            if result.failure:
                raise CommandFailedError(result.failure)
            if not result.waits:
                break
            if workflow.now() >= until:
                raise CommandFailedError(f"its replacements were not initialized in time: {result.waits}")
            self._show(f"waits for its replacements: {result.waits}")
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self.replacements_changed or self.cancelled,
                    timeout=min(CHECK_AGAIN, until - workflow.now()),
                    timeout_summary="Tenon looks at the replacements again",
                )
        self._record("all replacements are initialized")

    def _cancellation(self) -> str:
        return f"{CANCELLED}: {self.cancelled_because}" if self.cancelled_because else CANCELLED

    async def _sleep(self, pause: timedelta, summary: str) -> None:
        """Wait, or until an operator cancels the command. ``summary``: what it does then."""
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(lambda: self.cancelled, timeout=pause, timeout_summary=summary)

    async def _step(self, activity: ActivityName) -> None:
        if self.cancelled:
            raise CommandFailedError(self._cancellation())
        result = await self._run(activity, self.begin, StepResult)
        if result.failure:
            raise CommandFailedError(result.failure)

    async def _ask(self) -> DisruptResult:
        return await self._run(ActivityName.DISRUPT, self.begin, DisruptResult)

    async def _run(self, activity: ActivityName, activity_input: Message, answer: type[Answer]) -> Answer:
        options = OPTIONS[activity]
        result: Answer = await workflow.execute_activity(
            activity.value,
            activity_input,
            result_type=answer,
            start_to_close_timeout=options.try_for,
            schedule_to_close_timeout=options.give_up_after,
            heartbeat_timeout=options.heartbeat,
            retry_policy=options.retry,
            summary=self._summary(),
        )
        return result

    def _summary(self) -> str:
        return command_page.headline(self.begin.command)

    async def _undo(self, failure: str, *, may_leave: bool = False) -> DisruptResult:
        """Undo the command.

        ``may_leave``: some candidates may have accepted and leave, so their replacements stay, as ordinary nodes.
        """
        self.undone = failure
        self._record(f"undone: {failure}")
        claims = self._names()
        if self.prepared:
            await self._finish(claims, undo=not may_leave)
            self._record("what it had begun is undone, but the replacements stay" if may_leave else UNDONE)
        else:
            workflow.logger.info(
                "A disruption command ended before it touched anything",
                extra={"command": self.begin.command.id, "nodeclaims": claims, "reason": failure},
            )
        pause = FAILED_PAUSE if self.prepared or self.cancelled else UNTOUCHED_PAUSE
        await self._postpone(claims, pause, undone=failure)
        return DisruptResult(refused=dict.fromkeys(claims, failure), failure=failure)

    async def _finish(self, stay: list[str], *, undo: bool) -> None:
        finish_input = FinishInput(cluster=self.begin.cluster, command=self.begin.command, stay=stay, undo=undo)
        await self._run(ActivityName.FINISH_COMMAND, finish_input, StepResult)

    async def _postpone(self, claims: list[str], pause: timedelta, refused: str = "", undone: str = "") -> None:
        """Ask the disruption workflow to leave these nodes alone for a while. ``undone``: why the command failed."""
        if claims:
            command = self.begin.command
            own_id = command.id if command.approval is not None else ""
            postponement = Postponement(
                claims=claims, seconds=pause.total_seconds(), refused=refused, command=own_id, undone=undone
            )
            await self._report("postpone", postponement)

    async def _report(self, signal: str, payload: Message | list[str]) -> None:
        handle = workflow.get_external_workflow_handle(names.disruption_id(self.begin.cluster))
        try:
            await handle.signal(signal, payload)
        except Exception as error:  # it is not running: a new one has no memory of this command anyway
            workflow.logger.warning(
                "The command failed to report its result to the disruption workflow", extra={"error": str(error)}
            )

    def _record(self, line: str) -> None:
        self.timeline.append(f"`{workflow.now():%Y-%m-%d %H:%M:%S}` {line}")
        self._show("")

    def _show(self, waits: str) -> None:
        self.waits = waits
        approve_until = self.approve_until if self.approval is None else None
        workflow.set_current_details(
            command_page.current_details(
                self.begin.command, self.timeline, waits, approve_until, self.undone, self.reached
            )
        )
