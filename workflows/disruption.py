"""One workflow a cluster that decides which nodes leave, and keeps the ledger of commands that have not ended.

A command runs in a workflow of its own, so that one bad command blocks nothing.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field
from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from tenon.evolve import evolve

with workflow.unsafe.imports_passed_through():
    from tenon.lifecycle.messages import (
        ActivityName,
        AwaitDisruptionInput,
        DisruptInput,
        DisruptionCommand,
        DisruptionDecision,
        DisruptResult,
        LedgerEntry,
        Message,
    )
    from workflows import names
    from workflows.options import OPTIONS
    from workflows.planner_call import PlannerCaller

REFUSED_PAUSE = timedelta(seconds=30)
"""How long a node that refused a command is left alone."""
COMMAND_GRACE = timedelta(minutes=10)
"""How long after its due time a command's nodes stay in the ledger when nobody reports on them."""


class DisruptionInput(Message):
    """What one run hands to the next."""

    cluster: str
    ledger: dict[str, LedgerEntry] = Field(default_factory=dict)
    plan_queue: str = ""


@workflow.defn(name="Disruption")
class DisruptionWorkflow(PlannerCaller):
    """Wait for candidates, start a command, remember it until it is settled."""

    @workflow.init
    def __init__(self, begin: DisruptionInput) -> None:
        super().__init__(begin.plan_queue)
        self.cluster = begin.cluster
        self.ledger = dict(begin.ledger)

    @workflow.run
    async def run(self, begin: DisruptionInput) -> None:
        """Serve for ever."""
        while True:
            decision = await self._await_decision()
            if decision is not None:
                for claim in decision.gone:
                    self.ledger.pop(claim, None)
                for command in decision.commands:
                    await self._start(command)
            if workflow.info().is_continue_as_new_suggested() or workflow.info().get_current_history_length() > 500:
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(evolve(begin, ledger=self.ledger, plan_queue=self.plan_queue))

    async def _await_decision(self) -> DisruptionDecision | None:
        """The commands to start; None if the planner must be polled again."""
        now = workflow.now()
        self.ledger = {claim: entry for claim, entry in self.ledger.items() if entry.until > now}
        given = AwaitDisruptionInput(cluster=self.cluster, ledger=self.ledger)
        return await self.poll(
            ActivityName.AWAIT_DISRUPTION, given, DisruptionDecision, "wait for nodes that may be disrupted"
        )

    async def _start(self, command: DisruptionCommand) -> None:
        for candidate in command.candidates:
            self.ledger[candidate.claim] = LedgerEntry(
                command=command.id,
                reason=command.reason,
                pool=candidate.pool,
                until=candidate.due + COMMAND_GRACE,
                due=candidate.due,
            )
        try:
            await self._start_child(command)
        except WorkflowAlreadyStartedError:
            workflow.logger.info("command %s runs already", command.id)

    async def _start_child(self, command: DisruptionCommand) -> None:
        await workflow.start_child_workflow(
            DisruptionCommandWorkflow.run,
            DisruptInput(cluster=self.cluster, command=command),
            id=names.command_id(self.cluster, command.id),
            parent_close_policy=ParentClosePolicy.ABANDON,
            static_summary=f"{command.reason}: {', '.join(c.claim for c in command.candidates[:5])}",
        )

    @workflow.signal
    def settled(self, claims: list[str]) -> None:
        """A command's nodes refused it: they are free for another after a pause."""
        until = workflow.now() + REFUSED_PAUSE
        for claim in claims:
            if claim in self.ledger:
                self.ledger[claim] = evolve(self.ledger[claim], until=until, due=until)

    @workflow.query
    def open_commands(self) -> dict[str, LedgerEntry]:
        """Claim name to the command that is taking it away."""
        return self.ledger


@workflow.defn(name="DisruptionCommand")
class DisruptionCommandWorkflow:
    """One command: ask each candidate to leave."""

    @workflow.run
    async def run(self, begin: DisruptInput) -> DisruptResult:
        """The answers of the candidates."""
        options = OPTIONS[ActivityName.DISRUPT]
        result: DisruptResult = await workflow.execute_activity(
            ActivityName.DISRUPT.value,
            begin,
            result_type=DisruptResult,
            start_to_close_timeout=options.try_for,
            schedule_to_close_timeout=options.give_up_after,
            retry_policy=options.retry,
            summary=f"{begin.command.reason}: {len(begin.command.candidates)} nodes",
        )
        if result.refused:
            handle = workflow.get_external_workflow_handle(names.disruption_id(begin.cluster))
            await handle.signal("settled", sorted(result.refused))
        return result
