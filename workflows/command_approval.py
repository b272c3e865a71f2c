"""How a disruption command waits for a person, and how it is validated when that wait, or none, is over.

A command of a NodePool that asks for approval waits before it touches anything, for days if need be. Once it is
approved, it is validated like a command that was just decided, and waits for budgets, windows and freezes.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

with workflow.unsafe.imports_passed_through():
    from tenon.disruption.commands import approval_answers, command_page
    from tenon.evolve import evolve
    from tenon.kube.timestamps import time_text
    from tenon.messages.base import ActivityName
    from tenon.messages.command_approval import REFUSED_HOURS, Approval, ApprovalAnswer, Refusal
    from tenon.messages.command_steps import DisruptInput
    from tenon.messages.disruption import ApprovedReport, DisruptResult, StepResult
    from tenon.messages.node import Operator, OperatorAnswer
    from workflows.command_run import CommandFailedError, CommandRun
    from workflows.operator_updates import update
    from workflows.options import VALIDATED_WITHIN


class ApprovableCommand(CommandRun):
    """A command that people may have to approve."""

    def __init__(self, begin: DisruptInput) -> None:
        super().__init__(begin)
        self.refused_hours = REFUSED_HOURS
        self.withdrawn = ""
        """Why nothing asks for the command any more."""

    @update(
        description=command_page.APPROVE,
        hint=command_page.APPROVE_HINT,
        why_invalid=approval_answers.why_invalid,
    )
    def approve(self, operator: Operator) -> OperatorAnswer:
        """Approve a command that waits for it. Say who approves, and why."""
        answer = self._answer_to_person()
        if answer.accepted:
            self.approval = approval_answers.approved(operator, workflow.now())
        return answer

    @update(
        description=command_page.REFUSE,
        hint=command_page.REFUSE_HINT,
        why_invalid=approval_answers.why_invalid,
    )
    def refuse(self, refusal: Refusal) -> OperatorAnswer:
        """Refuse a command that waits for approval. Say who refuses, and why."""
        answer = self._answer_to_person()
        if answer.accepted:
            self.approval = approval_answers.refused(refusal, workflow.now())
            self.refused_hours = refusal.hours
        return answer

    @workflow.signal(description="Sent by Tenon: nothing asks for the command any more. One that awaits approval ends.")
    def withdraw(self, why: str) -> None:
        """Receive that nothing asks for the command any more. Once it has begun, its own steps notice that."""
        self.withdrawn = self.withdrawn or why

    def _answer_to_person(self) -> OperatorAnswer:
        ends = self.cancellation() if self.cancelled else self.withdrawn
        return approval_answers.answer_to(
            asks=self.begin.command.approval is not None, approval=self.approval, ends=ends
        )

    async def await_approval(self, within: timedelta) -> Approval:
        """Wait for a person, for one timer. Return how that ended."""
        since = workflow.now()
        self.approve_until = since + within
        self.record(f"waits for approval until {time_text(self.approve_until)}")
        self.show("waits for approval")
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self.approval is not None or self.cancelled or bool(self.withdrawn),
                timeout=within,
                timeout_summary="If no one approves by then: refused",
            )
        approval = self.approval or self._unanswered(workflow.now())
        self.approval = evolve(approval, seconds=(approval.at - since).total_seconds())
        return self.approval

    def _unanswered(self, now: datetime) -> Approval:
        """Return why the wait ended without an answer."""
        if self.cancelled:
            return approval_answers.cancelled(self.cancellation(), now)
        withdrawn = self.withdrawn
        return approval_answers.stale(withdrawn, now) if withdrawn else approval_answers.unanswered(now)

    async def end_unapproved(self, approval: Approval) -> DisruptResult:
        """End a command that was not approved. It has touched nothing."""
        self.undone = approval.text
        claims = self.claim_names()
        if approval.answer is not ApprovalAnswer.STALE:
            pause = approval_answers.pause_after(approval, self.refused_hours)
            await self.postpone(claims, pause, refused=approval.text)
        return DisruptResult(refused=dict.fromkeys(claims, approval.text), failure=approval.text)

    async def validate_command(self) -> StepResult:
        """Have the planner check that the command still holds. The result may name other replacements.

        Raises:
            CommandFailedError: it does not hold any more, or an operator cancelled it.
        """
        if self.cancelled:
            raise CommandFailedError(self.cancellation())
        valid = await self._validate()
        if self.approval is not None:
            valid = await self._validate_again(valid, self.approval.at + approval_answers.BUDGETS_WITHIN)
        if valid.failure:
            raise CommandFailedError(valid.failure)
        if self.approval is not None:
            command = valid.instead or self.begin.command
            claims = [candidate.claim for candidate in command.candidates]
            await self.report(
                "approved", ApprovedReport(command=command.id, claims=claims, moves_pods=command.moves_pods)
            )
        return valid

    async def _validate_again(self, valid: StepResult, until: datetime) -> StepResult:
        """Wait until a leader, the budgets, disruption windows and freezes let an approved command start."""
        pause = approval_answers.FIRST_RETRY
        while valid.waits:
            if workflow.now() >= until:
                return StepResult(failure=f"it was approved, but {valid.waits}")
            self.show(f"is approved and waits: {valid.waits}")
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self.cancelled or bool(self.withdrawn),
                    timeout=pause,
                    timeout_summary="Then Tenon checks whether the approved command may start",
                )
            if self.cancelled or self.withdrawn:
                return StepResult(failure=self.cancellation() if self.cancelled else self.withdrawn)
            pause = approval_answers.next_retry(pause)
            valid = await self._validate()
        return valid

    async def _validate(self) -> StepResult:
        """Ask a leader. A command without approval has no later try, so it asks another one at once."""
        minutes, queue = int(VALIDATED_WITHIN.total_seconds() // 60), self.plan_queue
        valid = await self._validate_in_time()
        if valid is None and self.approval is None and queue:
            minutes *= 2
            valid = await self._validate_in_time()
        if valid is not None:
            return valid
        why = f"no leader has checked within {minutes} minutes whether it still holds"
        if self.approval is not None:  # an outage of the worker does not take a person's answer
            return StepResult(waits=why)
        raise CommandFailedError(why)

    async def _validate_in_time(self) -> StepResult | None:
        try:
            return await self.call(ActivityName.VALIDATE_COMMAND, self.begin, StepResult, self.summary())
        except ActivityError as error:
            if not isinstance(error.cause, ActivityTimeoutError):
                raise
            self.plan_queue = ""  # its leader may be gone, and each leader serves the shared queue
            return None
