"""The workflow of one disruption command. Empty nodes are asked to leave, others are replaced first, or reboot.

A command that moves pods keeps new pods away from its candidates and waits until everything that comes in their place
is ready (DIS-60 to DIS-65). If anything fails before the candidates are asked to leave, it undoes what it did. A
candidate that leaves for another reason meanwhile is not a failure: its replacement serves its pods.

`command_approval` says how a command waits for a person before all this, and `replacement_wait` how it stays open until
what replaces a node that left first runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from tenon.apis.reasons import traits_of
    from tenon.disruption.commands import command_page
    from tenon.disruption.commands.leaving_together import VALIDATION_DELAY
    from tenon.disruption.history.savings import total
    from tenon.evolve import evolve
    from tenon.messages.awaited_replacements import AwaitedReplacement
    from tenon.messages.base import REBOOT, ActivityName
    from tenon.messages.command_approval import ApprovalAnswer
    from tenon.messages.command_steps import (
        CommandProgress,
        DisruptInput,
        MeasureInput,
        MeasureResult,
        ReplacementsInput,
    )
    from tenon.messages.disruption import (
        DisruptionCommand,
        DisruptResult,
        MeasuredSaving,
        SavingReport,
        StepResult,
    )
    from tenon.money import per_hour
    from tenon.sentences import counted, shortened
    from workflows.command_approval import ApprovableCommand
    from workflows.command_run import FAILED_PAUSE, CommandFailedError
    from workflows.replacement_wait import ReplacementWait

REPLACEMENTS_WITHIN = timedelta(minutes=10)
"""How long the replacements may take to be initialized (DIS-65)."""
CHECK_AGAIN = timedelta(seconds=60)
"""How long a command waits for a signal about its replacements before it looks at them anyway."""
SURGE_WITHIN = timedelta(minutes=10)
"""How long Deployments may take to start their new pods."""
MAX_REASON = 300
"""The most characters of the reason of a cancellation."""


@workflow.defn(name="DisruptionCommand")
class DisruptionCommandWorkflow(ApprovableCommand):
    """Runs one command. Its result says which candidates leave."""

    @workflow.init
    def __init__(self, begin: DisruptInput) -> None:
        super().__init__(begin)

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
                self.show_saving(0.0)  # the list of commands that save something has none that failed
            self.ended = True
            self.show("")
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

    async def _carry_out(self, command: DisruptionCommand) -> DisruptResult:
        self.show("")
        if command.approval is None or self.begin.awaited is not None:
            return await self._act(command)
        approval = await self.await_approval(timedelta(seconds=command.approval.seconds))
        if approval.answer is ApprovalAnswer.CANCELLED:
            return evolve(await self.undo(self.cancellation()), approval=approval)
        self.record(approval.text)
        result = await (
            self._act(command) if approval.answer is ApprovalAnswer.APPROVED else self.end_unapproved(approval)
        )
        await workflow.wait_condition(workflow.all_handlers_finished)
        return evolve(result, approval=approval)

    async def _act(self, command: DisruptionCommand) -> DisruptResult:
        if self.begin.awaited is not None:
            return await ReplacementWait(self).wait(self.begin.awaited)
        if command.decision == REBOOT:
            return await self._reboot()
        return await (self._replace_and_remove(command) if command.moves_pods else self._remove_empty_nodes())

    async def _reboot(self) -> DisruptResult:
        """Ask the node to reboot in place. Its own workflow drains it, and looks after it from then on (N15-153)."""
        try:
            await self.validate_command()
            result = await self.execute(ActivityName.REQUEST_REBOOT, self.begin, DisruptResult)
        except CommandFailedError as error:
            return await self.undo(str(error))
        except ActivityError as error:
            return await self.undo(str(error.cause or error))
        self.record(f"asked {counted(len(result.accepted), 'node')} to reboot")
        for claim, why in sorted(result.refused.items()):
            self.record(f"NodeClaim {claim}: {why}")
        await self.postpone(sorted(result.refused), FAILED_PAUSE)
        return result

    async def _remove_empty_nodes(self) -> DisruptResult:
        if self.approval is not None:
            try:
                valid = await self.validate_command()
            except CommandFailedError as error:
                return await self.undo(str(error))
            except ActivityError as error:
                return await self.undo(str(error.cause or error))
            self.begin = evolve(self.begin, command=valid.instead or self.begin.command)
        self.show("asks its nodes to leave, if they are still empty")
        result = await self._ask()
        self.record_answers(result)
        if result.refused:
            await self.report("settled", sorted(result.refused))
        if (saving := command_page.saving_of(self.begin.command, result)) is not None:
            self.show_saving(saving)
        return result

    async def _replace_and_remove(self, command: DisruptionCommand) -> DisruptResult:
        try:
            await self._prepare(command)
        except CommandFailedError as error:
            return await self.undo(str(error))
        except ActivityError as error:
            return await self.undo(str(error.cause or error))
        asked_at = workflow.now()
        try:
            result = evolve(await self._ask(), approval=self.approval)
        except ActivityError as error:
            return await self.undo(str(error.cause or error), may_leave=True)
        stay = sorted(set(result.refused) - set(result.leaving))
        self.record_answers(result)
        # What leaves for another reason needs its replacement all the same.
        await self.finish(stay, undo=not (result.accepted or result.leaving))
        await self.postpone(stay, FAILED_PAUSE)
        leaving_claims = sorted({*result.accepted, *result.leaving})
        if leaving_claims and self.begin.command.terminate_first is not None:
            return await ReplacementWait(self).wait(AwaitedReplacement(since=asked_at, result=result))
        if leaving_claims and command.terminate_first is not None:
            await self.report("replaced", leaving_claims)  # its replacements started first after all
        if leaving_claims:
            return evolve(result, saving=await self._measure(leaving_claims))
        return result

    async def _measure(self, leaving_claims: list[str]) -> MeasuredSaving | None:
        """Compare what the command saves with what was predicted, and report it to the disruption workflow."""
        begin = self.begin
        measure_input = MeasureInput(cluster=begin.cluster, command=begin.command, leaving_claims=leaving_claims)
        try:
            result = await self.call(ActivityName.MEASURE_SAVING, measure_input, MeasureResult, self.summary())
        except ActivityError as error:
            self.record(f"what it saves is not known: {error.cause or error}")
            return None
        if not result.pools:
            self.record("what it saves is not known, because a price is not known")
            return None
        saving = total(result.pools.values())
        self.record(f"saves {per_hour(saving.reached)}; {per_hour(saving.predicted)} was predicted")
        if traits_of(begin.command.reason).counts_savings:
            report = SavingReport(command=begin.command.id, started=workflow.info().start_time, pools=result.pools)
            await self.report("saved", report)
        self.show_saving(saving.reached)
        return saving

    async def _prepare(self, command: DisruptionCommand) -> None:
        if command.graceful:
            self.record("waits before it is validated")
            await self.sleep(VALIDATION_DELAY, "Then Tenon checks whether the command is still right")
        valid = await self.validate_command()
        if valid.instead is not None:
            self.begin = evolve(self.begin, command=valid.instead)
            command = valid.instead
            why = valid.why_instead or "the first ones were planned long ago"
            self.record(f"takes other replacements, because {why}")
        self.prepared = True
        await self.step(ActivityName.TAINT_CANDIDATES)
        self.record("new pods are kept away from the candidates")
        if command.replacements:
            await self.step(ActivityName.CREATE_REPLACEMENTS)
            self.record(f"created {', '.join(replacement.name for replacement in command.replacements)}")
            await self._await_replacements(command)
        if command.surge:
            await self._start_new_pods_first(command)
        await self._await_others(command)
        await self.step(ActivityName.CHECK_CANDIDATES)

    async def _await_others(self, command: DisruptionCommand) -> None:
        """Let other commands of the same pass taint their nodes, so that no pod goes to one of these."""
        if command.leaves_from is None:
            return
        pause = command.leaves_from - workflow.now()
        if pause > timedelta():
            self.show("waits until other commands that were decided with it keep new pods away too")
            await self.sleep(pause, "Then Tenon evicts the pods, together with other commands")

    async def _start_new_pods_first(self, command: DisruptionCommand) -> None:
        """Let Deployments that ask for it start their new pods before the old ones stop."""
        if self.cancelled:
            raise CommandFailedError(self.cancellation())
        self.show(f"waits for new pods of {', '.join(command.surge)}")
        replacements_input = ReplacementsInput(
            cluster=self.begin.cluster, command=command, until=workflow.now() + SURGE_WITHIN
        )
        if failure := (await self.execute(ActivityName.SURGE, replacements_input, StepResult)).failure:
            raise CommandFailedError(failure)
        self.record(f"{', '.join(command.surge)} had their new pods ready before the old ones left")

    async def _await_replacements(self, command: DisruptionCommand) -> None:
        """Look at the replacements when a signal says that one changed, and at least every `CHECK_AGAIN`.

        No activity runs in between, because launching the replacements needs the worker slot that it would hold.
        """
        until = workflow.now() + REPLACEMENTS_WITHIN
        replacements_input = ReplacementsInput(cluster=self.begin.cluster, command=command, until=until)
        while True:
            if self.cancelled:
                raise CommandFailedError(self.cancellation())
            self.replacements_changed = False
            result = await self.execute(ActivityName.AWAIT_REPLACEMENTS, replacements_input, StepResult)
            if result.failure:
                raise CommandFailedError(result.failure)
            if not result.waits:
                break
            if workflow.now() >= until:
                raise CommandFailedError(f"its replacements were not initialized in time: {result.waits}")
            self.show(f"waits for its replacements: {result.waits}")
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self.replacements_changed or self.cancelled,
                    timeout=min(CHECK_AGAIN, until - workflow.now()),
                    timeout_summary="Then Tenon looks at the replacements again",
                )
        self.record("all replacements are initialized")

    async def _ask(self) -> DisruptResult:
        return await self.execute(ActivityName.DISRUPT, self.begin, DisruptResult)
