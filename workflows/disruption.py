"""The workflow, one per cluster, that decides which nodes to disrupt and keeps a list of the open commands.

Each command runs in its own child workflow, so that a failing command does not block the others.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import Field
from temporalio import workflow
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ActivityError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from tenon.evolve import evolve

with workflow.unsafe.imports_passed_through():
    from tenon.apis.reasons import camel_case
    from tenon.disruption.commands import command_page, forecast_page, overview_page
    from tenon.disruption.commands.approval_answers import BUDGETS_WITHIN
    from tenon.disruption.commands.open_commands import (
        commands_without,
        opened,
        stale_commands,
        still_awaiting,
        with_approved,
        with_ended,
        without_postponed_since,
    )
    from tenon.disruption.history.savings import is_forgotten, remember, total
    from tenon.messages.base import POLL_SECONDS, QUIET_POLL_SECONDS, ActivityName, WorkflowInput
    from tenon.messages.disruption import (
        ApprovedReport,
        AwaitDisruptionInput,
        AwaitedReport,
        DisruptionCommand,
        DisruptionDecision,
        DisruptResult,
        OpenCommand,
        PassCursor,
        PoolSavings,
        Postponement,
        RecentCommand,
        SavingReport,
    )
    from tenon.messages.forecast import ConsolidationForecast, ForecastAnswer, ForecastInput
    from workflows import names
    from workflows.continuing import continue_as_new, is_for_another_version, must_continue_as_new
    from workflows.disruption_command import DisruptionCommandWorkflow
    from workflows.operator_updates import UpdateRefusedError
    from workflows.planner_call import PlannerCaller

MAX_HISTORY, MAX_HISTORY_WITH_COMMANDS = 500, 2000
"""The number of history events after which a run continues as new; the second while commands that it started run,
because the next run does not hear when they end."""
REFUSED_PAUSE = timedelta(seconds=30)
"""How long a node is left alone after it refused a command."""
COMMAND_GRACE = timedelta(minutes=10)
"""How long a command's nodes stay listed after its due time if nothing reports that they left or refused."""

MOVE_GRACE = timedelta(minutes=75)
"""The same for a command that moves pods, which reports its end. It covers the longest command and a slow drain."""


class DisruptionInput(WorkflowInput):
    """The state that each run passes on when it continues as new."""

    cluster: str
    ledger: dict[str, OpenCommand] = Field(default_factory=dict)
    savings: dict[str, PoolSavings] = Field(default_factory=dict)
    cursor: PassCursor = Field(default_factory=PassCursor)
    plan_queue: str = ""
    recent_commands: list[RecentCommand] = Field(default_factory=list)
    """The last commands, for the page."""


def first_input(cluster: str, plan_queue: str) -> DisruptionInput:
    """Return the input of a new disruption workflow."""
    headline = overview_page.headline(cluster, {})
    return DisruptionInput(headline=headline, why=overview_page.WHY, cluster=cluster, plan_queue=plan_queue)


@workflow.defn(name="Disruption")
class DisruptionWorkflow(PlannerCaller):
    """Waits for candidates, starts commands, and lists each one until it is settled."""

    @workflow.init
    def __init__(self, begin: DisruptionInput) -> None:
        super().__init__(begin.plan_queue)
        self.announced_queue = begin.plan_queue
        """The task queue of the leader that the open commands know."""
        self.cluster = begin.cluster
        self.by_claim = dict(begin.ledger)
        self.polled_commands: dict[str, OpenCommand] = {}
        """`by_claim` as the planner was last asked about it."""
        self.savings = dict(begin.savings)
        """By NodePool, the last consolidation commands if they saved less than predicted."""
        self.cursor = begin.cursor
        """Which nodes of a large cluster consolidation looks at next."""
        self.recent_commands = begin.recent_commands
        self.forecast: ConsolidationForecast | None = None
        """The last one that an operator asked for, until a command starts."""
        self.foreseeing: asyncio.Task[ConsolidationForecast] | None = None
        """The search for it, which all operators share that ask meanwhile: the planner has few slots for searches."""
        self.running: set[str] = set()
        """The commands that this run started and whose workflows have not ended."""
        self.input_changed = False
        """Whether commands or savings changed since the planner was asked, so that its answer may be out of date."""

    @workflow.run
    async def run(self, begin: DisruptionInput) -> None:
        """Poll the planner and start commands. Never returns; continues as new when the history grows."""
        while True:
            decision = await self._await_decision()
            if self.plan_queue != self.announced_queue:
                await self._announce_leader()
            if decision is not None:
                before = self.by_claim
                over = without_postponed_since(decision.finished_claims, self.polled_commands, self.by_claim)
                self.by_claim = commands_without(self.by_claim, over)
                await self._withdraw_since(before)
                if decision.cursor is not None:
                    self.cursor = decision.cursor
                for command in decision.commands:
                    before = self.by_claim
                    await self._start(command)
                    await self._withdraw_since(before)
            if must_continue_as_new(MAX_HISTORY_WITH_COMMANDS if self._carries_out_commands() else MAX_HISTORY):
                await workflow.wait_condition(workflow.all_handlers_finished)
                continue_as_new(
                    evolve(
                        begin,
                        headline=overview_page.headline(self.cluster, self.by_claim),
                        why=overview_page.WHY,
                        recent_commands=self.recent_commands,
                        ledger=self.by_claim,
                        savings=self.savings,
                        cursor=self.cursor,
                        plan_queue=self.plan_queue,
                    )
                )

    async def _await_decision(self) -> DisruptionDecision | None:
        """The commands to start, or None if the planner must be polled again."""
        now = workflow.now()
        over = {claim for claim, entry in self.by_claim.items() if entry.until <= now}
        self.by_claim = commands_without(self.by_claim, over)
        self.savings = {pool: saving for pool, saving in self.savings.items() if not is_forgotten(saving, now)}
        disruption_input = AwaitDisruptionInput(
            cluster=self.cluster,
            ledger=self.by_claim,
            savings=self.savings,
            cursor=self.cursor,
            wait_seconds=QUIET_POLL_SECONDS if self._is_quiet() else POLL_SECONDS,
        )
        self.polled_commands = dict(self.by_claim)  # signals change `by_claim`
        self.input_changed = False
        self._show()
        return await self.poll(
            ActivityName.AWAIT_DISRUPTION,
            disruption_input,
            DisruptionDecision,
            "waits for nodes that may leave",
            outdated=lambda: self.input_changed or is_for_another_version(),
        )

    def _is_quiet(self) -> bool:
        """Whether nothing ends with time. The planner sees the ends of refusals, and waits for people cost no calls."""
        return not self.savings and all(entry.is_idle for entry in self.by_claim.values())

    def _carries_out_commands(self) -> bool:
        """Whether commands that this run started are under way. Those that wait for a person may wait for days."""
        return any(entry.command in self.running and not entry.is_idle for entry in self.by_claim.values())

    async def _withdraw_since(self, before: dict[str, OpenCommand]) -> None:
        """Tell commands that wait for a person that what they were decided for does not hold any more."""
        for command, why in stale_commands(before, self.by_claim).items():
            own_claims = {claim for claim, entry in self.by_claim.items() if entry.command == command}
            self.by_claim = commands_without(self.by_claim, own_claims)
            self._remember_end(command, f"undone: {why}")
            handle = workflow.get_external_workflow_handle(names.command_id(self.cluster, command))
            try:
                await handle.signal("withdraw", why)
            except Exception as error:  # an operator terminated it
                workflow.logger.debug("A command did not hear that it is not needed", extra={"error": str(error)})

    async def _announce_leader(self) -> None:
        """Tell the open commands that call the planner which leader serves it now."""
        self.announced_queue = queue = self.plan_queue
        commands = {entry.command for entry in self.by_claim.values() if entry.due is None}
        await asyncio.gather(*(self._announce_to(command, queue) for command in sorted(commands)))

    async def _announce_to(self, command: str, queue: str) -> None:
        handle = workflow.get_external_workflow_handle(names.command_id(self.cluster, command))
        try:
            await handle.signal("planner_started", queue)
        except Exception as error:  # it has ended: only its nodes have not left yet
            workflow.logger.debug("A command did not hear of the new leader", extra={"error": str(error)})

    async def _start(self, command: DisruptionCommand) -> None:
        now = workflow.now()
        self.forecast = self.foreseeing = None
        self.by_claim = commands_without(self.by_claim, {candidate.claim for candidate in command.candidates})
        until = now + (MOVE_GRACE if command.moves_pods else COMMAND_GRACE)
        if command.approval is not None:
            until += timedelta(seconds=command.approval.seconds) + BUDGETS_WITHIN
        self.by_claim |= opened(command, now, until)
        try:
            await self._start_child(command)
        except WorkflowAlreadyStartedError:
            workflow.logger.info("The command runs already", extra={"command": command.id})

    def _show(self) -> None:
        """Update the page. Each signal does, because the long poll may go on for an hour."""
        page = overview_page.current_details(
            self.cluster, self.by_claim, self.savings, self.recent_commands, self.forecast
        )
        workflow.set_current_details(page)

    def _remember_end(self, command: str, end: str) -> None:
        """Say on the page how one of the last commands ended."""
        workflow_id = names.command_id(self.cluster, command)
        self.recent_commands = overview_page.with_end(self.recent_commands, workflow_id, end)
        self._show()

    def _remember_result(self, command: DisruptionCommand, child: asyncio.Future[DisruptResult]) -> None:
        """Take a command whose workflow has ended off the list of those under way."""
        if child.cancelled():  # the worker evicts this workflow from its cache
            return
        error = child.exception()  # an operator may have terminated it
        self.running.discard(command.id)
        before = self.by_claim
        self.by_claim = with_ended(before, command.id)
        self.input_changed = self.input_changed or len(self.by_claim) < len(before)
        if error is not None:
            end = "ended without a result, as its own page says"
        else:
            end = command_page.end_of(command, child.result())
        self._remember_end(command.id, end)

    async def _start_child(self, command: DisruptionCommand) -> None:
        workflow_id = names.command_id(self.cluster, command.id)
        self.recent_commands = overview_page.remembered(
            self.recent_commands,
            workflow.now(),
            command_page.action(command),
            workflow_id,
            command_page.expected_saving(command),
        )
        child = await workflow.start_child_workflow(
            DisruptionCommandWorkflow.run,
            command_page.first_input(self.cluster, command, self.plan_queue),
            id=workflow_id,
            parent_close_policy=ParentClosePolicy.ABANDON,
            search_attributes=_attributes(self.cluster, command),
            static_summary=command_page.headline(command),
            static_details=command_page.static_details(command),
        )
        self.running.add(command.id)
        child.add_done_callback(partial(self._remember_result, command))

    @workflow.signal(description="Sent by Tenon: nodes that refused a command.")
    def settled(self, claims: list[str]) -> None:
        """Receive the nodes that refused a command. They become available for another one after `REFUSED_PAUSE`."""
        until = workflow.now() + REFUSED_PAUSE
        for claim in claims:
            if claim in self.by_claim:
                self.by_claim[claim] = evolve(self.by_claim[claim], until=until, due=until)
        self._show()

    @workflow.signal(description="Sent by Tenon: nodes that a command could not remove.")
    def postpone(self, postponement: Postponement) -> None:
        """Receive the nodes that a command could not remove. They become available after a pause."""
        until = workflow.now() + timedelta(seconds=postponement.seconds)
        for claim in postponement.claims:
            entry = self.by_claim.get(claim)
            if entry is None or (postponement.command and entry.command != postponement.command):
                continue
            if why := postponement.undone or postponement.refused:
                self._remember_end(entry.command, f"undone: {why}")
            self.by_claim[claim] = evolve(
                entry, until=until, due=until, postponed=True, awaits_approval=False, refused=postponement.refused
            )
            self.input_changed = True
        self._show()

    @workflow.signal(description="Sent by Tenon: a command that a person approved starts.")
    def approved(self, report: ApprovedReport) -> None:
        """Receive that a command that waited for a person starts. Budgets count its nodes from now on."""
        now = workflow.now()
        until = now + (MOVE_GRACE if report.moves_pods else COMMAND_GRACE)
        self.by_claim = with_approved(self.by_claim, report, now, until)
        self.input_changed = True
        self._show()

    @workflow.signal(description="Sent by Tenon: what a consolidation command saves.")
    def saved(self, report: SavingReport) -> None:
        """Receive what a consolidation command saves. A NodePool whose commands do not pay is slowed down."""
        now = workflow.now()
        self.by_claim = with_ended(self.by_claim, report.command)
        self._remember_end(report.command, command_page.saved(total(report.pools.values()).reached))
        before = dict(self.savings)
        for pool, saving in report.pools.items():
            remembered = remember(self.savings.pop(pool, None), saving, started=report.started, now=now)
            if remembered is not None:
                self.savings[pool] = remembered
        if self.savings != before:
            self.input_changed = True
        self._show()

    @workflow.signal(description="Sent by Tenon: nodes leave before their replacement starts.")
    def awaits_replacement(self, report: AwaitedReport) -> None:
        """Receive that nodes leave before their replacement starts. They count against budgets until it runs."""
        self.by_claim = still_awaiting(self.by_claim, report, workflow.now())
        self.input_changed = True
        self._show()

    @workflow.signal(description="Sent by Tenon: the replacements of nodes that left first run.")
    def replaced(self, claims: list[str]) -> None:
        """Receive that the replacements of nodes that left first run, or are not needed any more."""
        self.by_claim = commands_without(self.by_claim, claims)
        self.input_changed = True
        self._show()

    @workflow.update(name="forecast", description=forecast_page.FORECAST)
    async def tell_forecast(self, *_inputs: Any) -> ForecastAnswer:
        """Ask the planner what consolidation would do next, and show it on the page. An input is ignored."""
        if self.foreseeing is None or self.foreseeing.done():
            self.foreseeing = asyncio.create_task(self._foresee())
        foreseeing = self.foreseeing
        try:
            answer = await foreseeing
        except ActivityError as error:
            workflow.logger.info("The planner gave no forecast", extra={"error": str(error.cause)})
            raise UpdateRefusedError(forecast_page.NO_ANSWER) from None
        if self.foreseeing is foreseeing:  # otherwise a command has started, of which the answer does not know
            self.forecast = answer
            self._show()
        return ForecastAnswer(forecast=forecast_page.lines(answer))

    async def _foresee(self) -> ConsolidationForecast:
        forecast_input = ForecastInput(cluster=self.cluster, ledger=self.by_claim)
        return await self.ask(ActivityName.FORECAST, forecast_input, ConsolidationForecast, "foresees consolidation")

    @workflow.query(description="The open commands: NodeClaim name to the command that disrupts it.")
    def open_commands(self) -> dict[str, OpenCommand]:
        """The open commands: NodeClaim name to the command that disrupts it."""
        return self.by_claim


def _attributes(cluster: str, command: DisruptionCommand) -> TypedSearchAttributes:
    """Return by what a command is found."""
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(names.CLUSTER, cluster),
        SearchAttributePair(names.REASON, camel_case(command.reason)),
        SearchAttributePair(names.COMMAND_NODES, command_page.searched_names(command)),
    ]
    pools = {candidate.pool for candidate in command.candidates}
    if len(pools) == 1:
        pairs.append(SearchAttributePair(names.POOL, pools.pop()))
    if command.predicted:
        pairs.append(SearchAttributePair(names.SAVING, command.predicted))
    return TypedSearchAttributes(pairs)
