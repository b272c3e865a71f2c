"""Which disruption decisions the record keeps, and with which inputs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from activities.record.decisions import REFUSALS_APART, UNFINISHED, DecisionRecorder
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision, DisruptionBlocked
from tenon.disruption.methods import moving_methods
from tenon.disruption.methods.gates import DecisionGates
from tenon.disruption.situation import Situation
from tenon.record.entries import DisruptionEntry
from tenon.record.kept_inputs import KeptInputs
from tenon.replay.decision_inputs import DecisionInputs
from tenon.scheduling.deadline import never
from tests.activities.record.kept import KeptRecord
from tests.conformance.disruption_cluster import ClusterScenario
from tests.conformance.disruption_scenario import FOLDER, read
from tests.tenon.disruption.clusters import situation

GATES = DecisionGates(spot_to_spot=True)
REPLACED = "DIS-13-another-value-of-do-not-disrupt-holds-nothing"
HELD = "DIS-13-do-not-disrupt-on-a-pod-holds-its-node"


class Recorded:
    """A recorder, the inputs that it was asked to keep, and the entries."""

    def __init__(self) -> None:
        self.record = KeptRecord()
        self.inputs: list[DecisionInputs] = []
        self.recorder = DecisionRecorder(self.record, self, "c", GATES)

    async def keep_decision(self, inputs: DecisionInputs) -> KeptInputs:
        self.inputs.append(inputs)
        return KeptInputs(f"digest {len(self.inputs)}")

    async def decided(self, value: Situation, decision: Decision, *, complete: bool = True) -> None:
        self.recorder.decided(value, decision, complete=complete)
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "keep decision"))

    @property
    def entries(self) -> list[DisruptionEntry]:
        return [entry for entry in self.record.entries if isinstance(entry, DisruptionEntry)]


def made(name: str) -> tuple[Situation, Decision]:
    """A scenario's situation and decision."""
    scenario = read(FOLDER / f"{name}.yaml")
    assert isinstance(scenario, ClusterScenario)
    value = situation(scenario.cluster)
    return value, decide(value, moving_methods(never, GATES))


async def test_each_decision_with_a_command_is_kept_with_its_inputs() -> None:
    at = Recorded()
    for _ in range(2):
        await at.decided(*made(REPLACED))
    first, second = at.entries
    assert (first.inputs, second.inputs, first.inputs_lacking) == ("digest 1", "digest 2", "")
    (command,) = first.commands
    assert (command.reason, command.decision, command.claims) == ("Underutilized", "replace", ["a"])
    assert command.bought == ["c5.large of default"]
    assert first.saving == command.saving > 0
    assert first.cluster == "c"
    assert at.inputs[0].gates == GATES


async def test_a_refusal_is_kept_once_until_other_nodes_are_refused() -> None:
    """A search runs all the time, and the same pod may keep the same node for months."""
    at = Recorded()
    value, decision = made(HELD)
    for minutes in (0, 1, 30, 60):
        await at.decided(replace(value, now=value.now + timedelta(minutes=minutes)), decision)
    (entry,) = at.entries
    assert entry.commands == []
    assert "do-not-disrupt protects it" in entry.refused["a"]
    other = replace(decision, blocked={"b": DisruptionBlocked("It drifted", "its pod may not be evicted")})
    await at.decided(replace(value, now=value.now + REFUSALS_APART / 2), other)
    assert len(at.entries) == 1
    await at.decided(replace(value, now=value.now + REFUSALS_APART), other)
    assert len(at.entries) == 2


async def test_a_search_that_finds_and_refuses_nothing_is_not_kept() -> None:
    at = Recorded()
    value, _ = made(REPLACED)
    await at.decided(value, Decision())
    await at.decided(replace(value, model=None), Decision())
    assert (at.entries, at.inputs) == ([], [])


async def test_a_search_that_ended_early_is_kept_without_inputs() -> None:
    """Its replay would find what it had no time for, and report a change that is none."""
    at = Recorded()
    value, decision = made(REPLACED)
    await at.decided(value, decision, complete=False)
    (entry,) = at.entries
    assert (entry.inputs, entry.inputs_lacking, at.inputs) == ("", UNFINISHED, [])
