"""How a command waits for what replaces a node that left first, because there was no room for both (N15-191).

The command stays open until the replacement runs, so that budgets count the node all that time, and survives every
restart of a worker meanwhile.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from tenon.disruption.commands import command_page
    from tenon.disruption.commands.awaited_replacements import (
        GIVEN_UP_PAUSE,
        LISTED_FOR,
        REPORT_EVERY,
        ReplacementCheck,
        ReplacementOutcome,
        is_idle,
        judge,
        pause_before,
    )
    from tenon.evolve import evolve
    from tenon.messages.awaited_replacements import (
        AwaitedReplacement,
        FindReplacementsInput,
        FoundReplacements,
        SettleReplacementsInput,
    )
    from tenon.messages.base import ActivityName
    from tenon.messages.disruption import AwaitedReport, DisruptResult, StepResult
    from workflows.command_run import CommandRun
    from workflows.continuing import continue_as_new, must_continue_as_new

MAX_HISTORY = 2000
"""The number of history events after which a run continues as new."""


class ReplacementWait:
    """The wait of one command."""

    def __init__(self, run: CommandRun) -> None:
        self._run = run

    async def wait(self, awaited: AwaitedReplacement) -> DisruptResult:
        """Wait until what replaces a node that left first runs. Budgets count the node until then (N15-191)."""
        run = self._run
        command = run.begin.command
        reported = await self._report_awaited(awaited)
        while True:
            run.replacements_changed = False
            replacements = await self._find_replacements(awaited)
            now = workflow.now()
            if awaited.gone_at is None and not replacements.leaving:
                awaited = evolve(awaited, gone_at=now, checks=0)
                run.record(f"{', '.join(run.claim_names())} is gone")
                reported = await self._report_awaited(awaited)
            wait = judge(command, awaited, replacements, now)
            if run.cancelled and wait.outcome is None:
                wait = ReplacementCheck(ReplacementOutcome.CANCELLED, run.cancellation())
            if wait.outcome is not None:
                return await self._settle(awaited, replacements, wait.outcome, wait.text)
            idle_since = (awaited.idle_since or now) if is_idle(command, replacements) else None
            awaited = evolve(awaited, checks=awaited.checks + 1, idle_since=idle_since)
            if now >= reported + REPORT_EVERY:
                reported = await self._report_awaited(awaited)
            run.show(wait.text)
            if must_continue_as_new(MAX_HISTORY) and not run.cancelled:  # the next run would not know of it
                awaited = evolve(awaited, timeline=run.timeline)
                begin = command_page.first_input(run.begin.cluster, run.begin.command, run.plan_queue)
                continue_as_new(evolve(begin, awaited=awaited))
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: run.replacements_changed or run.cancelled,
                    timeout=pause_before(awaited, workflow.now()),
                    timeout_summary="Then Tenon looks for the replacement again",
                )

    async def _find_replacements(self, awaited: AwaitedReplacement) -> FoundReplacements:
        begin = self._run.begin
        find_input = FindReplacementsInput(cluster=begin.cluster, command=begin.command, since=awaited.since)
        try:
            return await self._run.execute(ActivityName.FIND_REPLACEMENTS, find_input, FoundReplacements)
        except ActivityError as error:
            self._run.record(f"could not look for the replacement: {error.cause or error}")
            return FoundReplacements(leaving=self._run.claim_names() if awaited.gone_at is None else [], waiting_pods=1)

    async def _settle(
        self, awaited: AwaitedReplacement, replacements: FoundReplacements, outcome: ReplacementOutcome, text: str
    ) -> DisruptResult:
        """Say what became of the replacement, and let budgets count the cluster as it is."""
        self._run.record(text)
        command = self._run.begin.command
        gone_for = workflow.now() - awaited.gone_at if awaited.gone_at is not None else timedelta()
        settle_input = SettleReplacementsInput(
            cluster=self._run.begin.cluster,
            command=command,
            outcome=outcome,
            text=text,
            claims=[*replacements.running, *replacements.starting],
            seconds=gone_for.total_seconds(),
        )
        await self._run.execute(ActivityName.SETTLE_REPLACEMENTS, settle_input, StepResult)
        if outcome is ReplacementOutcome.GIVEN_UP:
            await self._report_awaited(awaited, GIVEN_UP_PAUSE)
        else:
            await self._run.report("replaced", self._run.claim_names())
        return evolve(awaited.result, replaced_by=replacements.running, replacement=text)

    async def _report_awaited(self, awaited: AwaitedReplacement, listed_for: timedelta = LISTED_FOR) -> datetime:
        """Ask the disruption workflow to count the node. Return the time."""
        command = self._run.begin.command
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
        await self._run.report("awaits_replacement", report)
        return workflow.now()
