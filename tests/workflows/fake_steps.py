"""Activities that carry out a disruption command as a test says, and such a command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.awaited_replacements import (
    FindReplacementsInput,
    FoundReplacements,
    SettleReplacementsInput,
)
from tenon.messages.base import ActivityName
from tenon.messages.command_steps import (
    DisruptInput,
    FinishInput,
    MeasureInput,
    MeasureResult,
    ReplacementsInput,
)
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    DisruptResult,
    MeasuredSaving,
    RepairCause,
    Replacement,
    StepResult,
)
from tenon.messages.forecast import ConsolidationForecast, ForecastInput
from tenon.messages.terminate_first import IntendedReplacement, TerminateFirstReason, TerminatesFirst

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class FakeSteps:
    """Answers every step of a command; ``calls`` holds their names in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[ActivityName, str | Exception] = {}
        self.refused: dict[str, str] = {}
        self.prices: dict[str, float] = {}
        """What the nodes' workflows say that their instances cost."""
        self.leaving: list[str] = []
        self.until = NOW
        self.finished: list[FinishInput] = []
        self.measured: list[list[str]] = []
        self.savings: dict[str, MeasuredSaving] = {}
        self.instead: DisruptionCommand | None = None
        """What the validation puts in the place of the command."""
        self.created: list[str] = []
        self.waits = ""
        """What the replacements wait for."""

        self.finds: list[FoundReplacements] = [FoundReplacements()]
        """What each check for what replaces a node that left first finds; the last one again and again."""
        self.settled: list[SettleReplacementsInput] = []
        self.forecast: ConsolidationForecast | Exception = ConsolidationForecast(asked_at=NOW)
        """What an operator hears of the next consolidation."""

    def _step(self, name: ActivityName) -> StepResult:
        self.calls.append(name.value)
        answer = self.fails.get(name, "")
        if isinstance(answer, Exception):
            raise answer
        return StepResult(failure=answer)

    @activity.defn(name=ActivityName.VALIDATE_COMMAND)
    async def validate(self, disrupt_input: DisruptInput) -> StepResult:
        return evolve(self._step(ActivityName.VALIDATE_COMMAND), instead=self.instead)

    @activity.defn(name=ActivityName.TAINT_CANDIDATES)
    async def taint(self, disrupt_input: DisruptInput) -> StepResult:
        return self._step(ActivityName.TAINT_CANDIDATES)

    @activity.defn(name=ActivityName.CREATE_REPLACEMENTS)
    async def create(self, disrupt_input: DisruptInput) -> StepResult:
        self.created = [replacement.name for replacement in disrupt_input.command.replacements]
        return self._step(ActivityName.CREATE_REPLACEMENTS)

    @activity.defn(name=ActivityName.AWAIT_REPLACEMENTS)
    async def replacements(self, replacements_input: ReplacementsInput) -> StepResult:
        self.until = replacements_input.until
        return evolve(self._step(ActivityName.AWAIT_REPLACEMENTS), waits=self.waits)

    @activity.defn(name=ActivityName.SURGE)
    async def surge(self, replacements_input: ReplacementsInput) -> StepResult:
        return self._step(ActivityName.SURGE)

    @activity.defn(name=ActivityName.CHECK_CANDIDATES)
    async def check(self, disrupt_input: DisruptInput) -> StepResult:
        return self._step(ActivityName.CHECK_CANDIDATES)

    @activity.defn(name=ActivityName.DISRUPT)
    async def disrupt(self, disrupt_input: DisruptInput) -> DisruptResult:
        self._step(ActivityName.DISRUPT)
        accepted = [
            candidate.claim for candidate in disrupt_input.command.candidates if candidate.claim not in self.refused
        ]
        prices = {claim: price for claim, price in self.prices.items() if claim in accepted}
        return DisruptResult(accepted=accepted, refused=self.refused, leaving=self.leaving, prices=prices)

    @activity.defn(name=ActivityName.REQUEST_REBOOT)
    async def reboot(self, value: DisruptInput) -> DisruptResult:
        self._step(ActivityName.REQUEST_REBOOT)
        accepted = [item.claim for item in value.command.candidates if item.claim not in self.refused]
        return DisruptResult(accepted=accepted, refused=self.refused)

    @activity.defn(name=ActivityName.FINISH_COMMAND)
    async def finish(self, finish_input: FinishInput) -> StepResult:
        self.finished.append(finish_input)
        return self._step(ActivityName.FINISH_COMMAND)

    @activity.defn(name=ActivityName.MEASURE_SAVING)
    async def measure(self, measure_input: MeasureInput) -> MeasureResult:
        self._step(ActivityName.MEASURE_SAVING)
        self.measured.append(measure_input.leaving_claims)
        return MeasureResult(pools=self.savings)

    @activity.defn(name=ActivityName.FORECAST)
    async def foresee(self, forecast_input: ForecastInput) -> ConsolidationForecast:
        self._step(ActivityName.FORECAST)
        if isinstance(self.forecast, Exception):
            raise self.forecast
        return self.forecast

    @activity.defn(name=ActivityName.FIND_REPLACEMENTS)
    async def find(self, _given_value: FindReplacementsInput) -> FoundReplacements:
        self._step(ActivityName.FIND_REPLACEMENTS)
        return self.finds.pop(0) if len(self.finds) > 1 else self.finds[0]

    @activity.defn(name=ActivityName.SETTLE_REPLACEMENTS)
    async def settle(self, value: SettleReplacementsInput) -> StepResult:
        self.settled.append(value)
        return self._step(ActivityName.SETTLE_REPLACEMENTS)

    def common(self) -> list[Any]:
        return [
            self.taint,
            self.create,
            self.replacements,
            self.surge,
            self.check,
            self.disrupt,
            self.reboot,
            self.finish,
            self.find,
            self.settle,
        ]


def leaves_first() -> DisruptionCommand:
    """A drifted node whose place in a capacity reservation its replacement needs."""
    intended = IntendedReplacement(pool="default", reservation="cr-1", workloads={"w": 2})
    return DisruptionCommand(
        id="drifted-1",
        reason=Reason.DRIFTED,
        candidates=[DisruptionCandidate(claim="default-1", uid="u1", pool="default", since=NOW)],
        moves_pods=True,
        graceful=False,
        explanation=["AMIDrift", "leaves before its replacement starts"],
        decision="terminate-first",
        terminate_first=TerminatesFirst(reason=TerminateFirstReason.NO_RESERVED_CAPACITY, intended=[intended]),
    )


def command(*, graceful: bool = True, replacements: int = 1) -> DisruptionCommand:
    """Two nodes that leave, and what comes in their place."""
    return DisruptionCommand(
        id="underutilized-1",
        reason=Reason.UNDERUTILIZED,
        candidates=[DisruptionCandidate(claim=f"default-{n}", uid=f"u{n}", pool="default", since=NOW) for n in (1, 2)],
        moves_pods=True,
        graceful=graceful,
        replacements=[Replacement(name="default-new", pool="default", body={}) for _ in range(replacements)],
        predicted=0.3,
        explanation=["two nodes are replaced by one"],
        decision="replace" if replacements else "delete",
    )


def reboot() -> DisruptionCommand:
    """A node that reboots in place."""
    return DisruptionCommand(
        id="unhealthy-1",
        reason=Reason.UNHEALTHY,
        candidates=[DisruptionCandidate(claim="default-1", uid="u1", pool="default", since=NOW)],
        graceful=False,
        explanation=["AcceleratedHardwareReady is False (XID63)", "the node reboots in place, so nothing is bought"],
        decision="reboot",
        repair=RepairCause(condition="AcceleratedHardwareReady", status="False", reason="XID63", drain_seconds=300.0),
    )
