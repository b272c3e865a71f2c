"""The inputs of disruption decisions, from a situation to small documents and back."""

from __future__ import annotations

import random
import uuid
from dataclasses import fields, replace
from datetime import UTC, datetime

import msgspec
import pytest

from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.methods.gates import DecisionGates
from tenon.disruption.situation import Situation
from tenon.provisioning.input_documents import UnreadableInputsError
from tenon.provisioning.plan_document import MAX_PLAN, InputsTooLargeError
from tenon.replay import decision_inputs
from tenon.replay.decision_entries import decision_digest, refused, saving_of
from tenon.replay.decision_inputs import (
    DecisionDocument,
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


def of_a_real_cluster(nodes: int, pods_of_each: int) -> DecisionInputs:
    """Inputs with the names, UIDs and times that a real cluster has, because chance does not compress."""
    chance = random.Random(1)
    now = 1_700_000_000

    def letters(number: int) -> str:
        return "".join(chance.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(number))

    def instant() -> datetime:
        return datetime.fromtimestamp(now - chance.randrange(10 * 86400), UTC)

    pods = [{"cpu": f"{100 + number}m", "memory": "64Mi", "app": f"app-{number}"} for number in range(pods_of_each)]
    cluster = Cluster.model_validate({"nodes": {f"default-{letters(5)}": {"pods": pods} for _ in range(nodes)}})
    plain = situation(cluster)
    assert plain.model is not None
    names = {node.node: f"ip-10-0-{chance.randrange(256)}-{chance.randrange(256)}.ec2.internal" for node in plain.nodes}
    hashes = {f"app-{number}": letters(10) for number in range(pods_of_each)}
    details = {
        claim: replace(
            detail,
            node=names[detail.node],
            quiet_since=instant(),
            created_at=instant(),
            pods=tuple(
                replace(
                    pod,
                    name=f"{pod.labels['app']}-{hashes[pod.labels['app']]}-{letters(5)}",
                    uid=str(uuid.UUID(int=chance.getrandbits(128))),
                    created=float(now - chance.randrange(10 * 86400)),
                    node_name=names[detail.node],
                )
                for pod in detail.pods
            ),
        )
        for claim, detail in plain.model.details.items()
    }
    managed = [
        replace(
            node,
            node=names[node.node],
            uid=str(uuid.UUID(int=chance.getrandbits(128))),
            node_created_at=instant(),
            expires_at=instant(),
        )
        for node in plain.nodes
    ]
    engine_nodes = [
        replace(node, name=names[node.name], labels={**node.labels, "kubernetes.io/hostname": names[node.name]})
        for node in plain.model.problem.nodes
    ]
    problem = replace(plain.model.problem, nodes=engine_nodes)
    return DecisionInputs(replace(plain, nodes=managed, model=replace(plain.model, details=details, problem=problem)))


def test_four_hundred_and_fifty_nodes_with_fifteen_pods_each_fit_into_a_document() -> None:
    assert len(DecisionInputEncoder().encode(of_a_real_cluster(450, 15)).plan) < MAX_PLAN


def test_pods_come_back_with_their_names_times_and_nodes() -> None:
    inputs = of_a_real_cluster(5, 4)
    before, after = inputs.situation.model, again(inputs).situation.model
    assert before is not None
    assert after is not None
    assert {claim: [replace(pod, uid="") for pod in detail.pods] for claim, detail in after.details.items()} == {
        claim: [replace(pod, uid="") for pod in detail.pods] for claim, detail in before.details.items()
    }


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
