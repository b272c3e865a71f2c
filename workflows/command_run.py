"""What every way of carrying out a disruption command needs: its steps, its cancellation, its page, and its undoing.

If anything fails before the candidates are asked to leave, the command undoes what it did. The disruption workflow then
leaves its nodes alone for a while.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.disruption.commands import command_page
    from tenon.errors import TenonError
    from tenon.messages.base import ActivityName, Message
    from tenon.messages.command_approval import Approval
    from tenon.messages.command_steps import DisruptInput, FinishInput
    from tenon.messages.disruption import DisruptResult, Postponement, StepResult
    from tenon.money import per_hour
    from tenon.sentences import counted
    from workflows import activity_calls, names
    from workflows.planner_call import PlannerCaller

FAILED_PAUSE = timedelta(minutes=5)
"""How long the candidates of a command that failed are left alone."""
UNTOUCHED_PAUSE = timedelta(seconds=30)
"""The same if the command failed before it touched anything, because the cluster had changed since the decision."""
CANCELLED = "an operator cancelled it"
UNDONE = "what it had begun is undone"

Answer = TypeVar("Answer", bound=Message)


class CommandFailedError(TenonError):
    """A step says that the command cannot go on. The command is undone, and its result says why."""


class CommandRun(PlannerCaller):
    """One run of a command's workflow."""

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
        self.saving = begin.command.predicted
        """Dollars an hour by which the command is found."""
        self.reached: float | None = None
        """Dollars an hour that it saves; None before that is known."""
        self.undone = ""
        """Why it was undone, in a clause."""
        self.ended = False
        self.prepared = False
        """Something of the command may be in the cluster, so that a failure must be undone."""
        self.approve_until: datetime | None = None
        """When it counts as refused, while it waits for a person."""
        self.approval: Approval | None = None
        """How that wait ended."""

    def cancellation(self) -> str:
        """Why the command is cancelled, in a clause."""
        return f"{CANCELLED}: {self.cancelled_because}" if self.cancelled_because else CANCELLED

    async def sleep(self, pause: timedelta, summary: str) -> None:
        """Wait, or until an operator cancels the command. ``summary``: what it does then."""
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(lambda: self.cancelled, timeout=pause, timeout_summary=summary)

    async def step(self, activity: ActivityName) -> None:
        """Take a step of the command.

        Raises:
            CommandFailedError: the step says that the command cannot go on, or an operator cancelled it.
        """
        if self.cancelled:
            raise CommandFailedError(self.cancellation())
        result = await self.execute(activity, self.begin, StepResult)
        if result.failure:
            raise CommandFailedError(result.failure)

    async def execute(self, activity: ActivityName, activity_input: Message, answer: type[Answer]) -> Answer:
        """Run an activity on the io processes. Temporal's UI shows the command next to it."""
        return await activity_calls.start(activity, activity_input, answer, self.summary())

    def summary(self) -> str:
        """The command in a line, for Temporal's UI."""
        return command_page.headline(self.begin.command)

    def claim_names(self) -> list[str]:
        """The NodeClaims of the candidates."""
        return sorted(candidate.claim for candidate in self.begin.command.candidates)

    async def undo(self, failure: str, *, may_leave: bool = False) -> DisruptResult:
        """Undo the command.

        ``may_leave``: some candidates may have accepted and leave, so their replacements stay, as ordinary nodes.
        """
        self.undone = failure
        self.record(f"undone: {failure}")
        claims = self.claim_names()
        if self.prepared:
            await self.finish(claims, undo=not may_leave)
            self.record("what it had begun is undone, but the replacements stay" if may_leave else UNDONE)
        else:
            workflow.logger.info(
                "A disruption command ended before it touched anything",
                extra={"command": self.begin.command.id, "nodeclaims": claims, "reason": failure},
            )
        pause = FAILED_PAUSE if self.prepared or self.cancelled else UNTOUCHED_PAUSE
        await self.postpone(claims, pause, undone=failure)
        return DisruptResult(refused=dict.fromkeys(claims, failure), failure=failure)

    async def finish(self, stay: list[str], *, undo: bool) -> None:
        """Give up the command's hold on its nodes. ``stay``: the NodeClaims that do not leave."""
        finish_input = FinishInput(cluster=self.begin.cluster, command=self.begin.command, stay=stay, undo=undo)
        await self.execute(ActivityName.FINISH_COMMAND, finish_input, StepResult)

    async def postpone(self, claims: list[str], pause: timedelta, refused: str = "", undone: str = "") -> None:
        """Ask the disruption workflow to leave these nodes alone for a while. ``undone``: why the command failed."""
        if claims:
            postponement = Postponement(
                claims=claims,
                seconds=pause.total_seconds(),
                refused=refused,
                command=self.begin.command.id,
                undone=undone,
            )
            await self.report("postpone", postponement)

    async def report(self, signal: str, payload: Message | list[str]) -> None:
        """Send a signal to the disruption workflow, which keeps the list of open commands."""
        handle = workflow.get_external_workflow_handle(names.disruption_id(self.begin.cluster))
        try:
            await handle.signal(signal, payload)
        except Exception as error:  # it is not running: a new one has no memory of this command anyway
            workflow.logger.warning(
                "The command failed to report its result to the disruption workflow", extra={"error": str(error)}
            )

    def record(self, line: str) -> None:
        """Add a line to the timeline, and show that the command waits for nothing."""
        self.timeline.append(f"`{workflow.now():%Y-%m-%d %H:%M:%S}` {line}")
        self.show("")

    def record_answers(self, result: DisruptResult) -> None:
        """Record which nodes leave, and why the others do not."""
        saving = f", {per_hour(sum(result.prices.values()))}" if result.prices else ""
        self.record(f"asked {counted(len(result.accepted), 'node')} to leave{saving}")
        for claim, why in sorted(result.refused.items()):
            self.record(f"NodeClaim {claim}: {why}")

    def show_saving(self, saving: float) -> None:
        """Let the command be found by what it saves, and say it on the page."""
        self.reached = saving
        self.show("")
        if round(saving, 4) != round(self.saving, 4):
            self.saving = saving
            workflow.upsert_search_attributes([names.SAVING.value_set(round(saving, 6))])

    def show(self, waits: str) -> None:
        """Write the page in Temporal's UI. ``waits``: what the command waits for; empty for nothing."""
        self.waits = waits
        approve_until = self.approve_until if self.approval is None else None
        workflow.set_current_details(
            command_page.current_details(
                self.begin.command,
                self.timeline,
                waits,
                approve_until,
                self.undone,
                self.reached,
                ended=self.ended,
            )
        )
