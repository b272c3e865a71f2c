"""The inputs of disruption decisions, from a situation to small documents and back."""

from __future__ import annotations

import random
import uuid
from dataclasses import fields, replace

import msgspec
import pytest

from tenon.disruption.deciding import decide
from tenon.disruption.model import Decision, Situation
from tenon.provisioning.input_documents import UnreadableInputsError
from tenon.provisioning.plan_inputs import MAX_PLAN, InputsTooLargeError
from tenon.replay import decision_inputs
from tenon.replay.decision_entries import decision_digest, refused, saving_of
from tenon.replay.decision_inputs import (
    DecisionDocument,
    DecisionGates,
    DecisionInputDecoder,
    DecisionInputEncoder,
    DecisionInputs,
)
from tenon.scheduling.deadline import never
from tests.conformance.disruption_cluster import ClusterScenario
from tests.conformance.disruption_scenario import FOLDER, read
from tests.tenon.disruption.clusters import Cluster, situation

SCENARIOS = {
    path.stem: scenario for path in sorted(FOLDER.glob("*.yaml")) if isinstance(scenario := read(path), ClusterScenario)
}


def again(inputs: DecisionInputs) -> DecisionInputs:
    """The inputs as they are read back."""
    documents = DecisionInputEncoder().encode(inputs)
    return DecisionInputDecoder(documents.catalogues.__getitem__).decode(documents.digest, documents.plan)


def parts(decision: Decision, value: Situation) -> object:
    """What a decision says."""
    return (
        decision_digest(decision.commands),
        saving_of(decision.commands),
        [
            (command.reason, {node: sorted(pod.key for pod in pods) for node, pods in command.destinations.items()})
            for command in decision.commands
        ],
        refused(decision, value),
        decision.blocked,
        decision.unconsolidatable,
        decision.next_pass,
        decision.cursor,
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_read_back_has_the_same_decision(name: str) -> None:
    scenario = SCENARIOS[name]
    gates = DecisionGates(scenario.spot_to_spot, scenario.terminate_first, scenario.terminate_first)
    inputs = DecisionInputs(situation(scenario.cluster), gates)
    read_back = again(inputs)
    assert read_back.gates == gates
    before = decide(inputs.situation, inputs.methods(never))
    after = decide(read_back.situation, read_back.methods(never))
    assert not after.failed
    assert parts(after, read_back.situation) == parts(before, inputs.situation)


def test_three_hundred_nodes_with_fifteen_pods_each_fit_into_a_document() -> None:
    """Names, UIDs and times that a real cluster has, because chance does not compress."""
    chance = random.Random(1)
    pods = [{"count": 5, "cpu": "100m", "memory": "64Mi", "app": f"app-{number}"} for number in range(3)]
    cluster = Cluster.model_validate({"nodes": {f"default-{number:05x}": {"pods": pods} for number in range(300)}})
    plain = situation(cluster)
    assert plain.model is not None
    details = {
        claim: replace(
            detail,
            pods=tuple(
                replace(
                    pod,
                    name=f"{pod.name}-{chance.getrandbits(24):06x}",
                    uid=str(uuid.UUID(int=chance.getrandbits(128))),
                    created=float(chance.randrange(1_700_000_000, 1_701_000_000)),
                )
                for pod in detail.pods
            ),
        )
        for claim, detail in plain.model.details.items()
    }
    inputs = DecisionInputs(replace(plain, model=replace(plain.model, details=details)))
    assert len(DecisionInputEncoder().encode(inputs).plan) < MAX_PLAN


def test_a_larger_cluster_is_not_kept_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = DecisionInputs(situation(SCENARIOS["DIS-03-a-drifted-node-is-replaced"].cluster))
    for limit, noun in (("MAX_DECISION_NODES", "node"), ("MAX_DECISION_PODS", "pod")):
        with monkeypatch.context() as patched:
            patched.setattr(decision_inputs, limit, 0)
            with pytest.raises(InputsTooLargeError, match=rf"\d+ {noun}s?, and at most 0 are kept"):
                DecisionInputEncoder().encode(inputs)


def test_a_document_of_something_else_is_not_read() -> None:
    inputs = DecisionInputs(situation(SCENARIOS["DIS-03-a-drifted-node-is-replaced"].cluster))
    documents = DecisionInputEncoder().encode(inputs)
    with pytest.raises(UnreadableInputsError, match="is damaged"):
        DecisionInputDecoder(documents.catalogues.__getitem__).decode("0" * 64, documents.plan)


def test_a_document_has_all_that_a_decision_depends_on() -> None:
    """A new part of the situation must be kept too, or a replay decides without it."""
    kept_parts = {part.name for part in msgspec.structs.fields(DecisionDocument)}
    assert kept_parts - {"version", "gates"} == {part.name for part in fields(Situation)}
