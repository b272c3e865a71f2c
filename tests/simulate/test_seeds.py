"""The manifests of Karpenter's first users in examples/seeds: planned as they stand, all their pods get places."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.running import Answer, command

SEEDS = Path("examples/seeds")
LOADS = Path("examples/simulate")
CATALOGUES = {"003-web-load": "ap-northeast-1", "004-getting-started": "us-east-1"}
NEEDS_ANOTHER = {"001-spot", "001-spread"}
"""A pool without a load, and a load without a pool."""


def simulate(*names: str, more: tuple[str, ...] = ()) -> Answer:
    """Simulate files of the folder."""
    files = [argument for name in names for argument in ("-f", str(SEEDS / f"{name}.yaml"))]
    catalogues = [CATALOGUES[name] for name in names if name in CATALOGUES]
    catalogue = ["--catalog", str(SEEDS / f"{catalogues[0]}.json")] if catalogues else []
    return command(*files, *more, *catalogue, "-o", "json")


def placed(answer: Answer) -> dict[str, Any]:
    """The plan, in which every pod has a place."""
    plan = answer.plan
    assert plan["unschedulable"] == []
    assert plan["totals"]["pods"] > 0
    return plan


@pytest.mark.parametrize("name", sorted({path.stem for path in SEEDS.glob("*.yaml")} - NEEDS_ANOTHER))
def test_every_file_is_planned_and_its_pods_are_placed(name: str) -> None:
    placed(simulate(name))


def test_the_first_look_gets_what_its_provisioner_allows() -> None:
    answer = simulate("000-first-look")
    for claim in placed(answer)["nodeClaims"]:
        assert set(claim["instanceTypes"]) <= {"m5.large", "m5.2xlarge"}
        assert claim["offering"]["zone"] in ("us-west-2a", "us-west-2b")
        assert claim["offering"]["capacityType"] == "spot"
    assert "do-not-evict is karpenter.sh/do-not-disrupt now" in answer.err


@pytest.mark.parametrize(("load", "nodes"), [("small-400", 4), ("medium-100", 3), ("large-10", 2)])
def test_the_loads_of_a_hundred_cpu_on_spot(load: str, nodes: int) -> None:
    plan = placed(simulate("001-spot", more=("-f", str(LOADS / f"{load}.yaml"))))
    assert plan["totals"]["nodes"] <= nodes
    for claim in plan["nodeClaims"]:
        assert claim["offering"]["capacityType"] == "spot"
        assert len(claim["instanceTypes"]) >= 15


def test_the_spread_makes_fifteen_nodes_of_at_most_thirty_pods() -> None:
    plan = placed(simulate("001-spot", "001-spread"))
    assert 14 <= plan["totals"]["nodes"] <= 15
    assert max(len(claim["pods"]) for claim in plan["nodeClaims"]) <= 30


def test_two_teams_stay_apart() -> None:
    plan = placed(simulate("001-two-teams"))
    where = Counter(
        (claim["nodePool"], pod.rpartition("-")[0]) for claim in plan["nodeClaims"] for pod in claim["pods"]
    )
    assert where == {("special", "default/special"): 6, ("everybody", "default/everybody"): 4}


def test_the_fields_of_v1beta1_all_have_a_place() -> None:
    answer = simulate("002-field-by-field")
    by_pool = {claim["nodePool"]: claim for claim in placed(answer)["nodeClaims"]}
    assert by_pool["foo-nodepool"]["offering"]["zone"] in ("us-west-2a", "us-west-2b")
    assert by_pool["bar-nodepool"]["offering"]["instanceType"].startswith("t3.")
    for note in (
        "aws.interruptionQueueName is INTERRUPTION_QUEUE now",
        "level of zap-logger-config is LOG_LEVEL now",
        "amiFamily AL2 without AMIs is the alias al2@latest now",
        "consolidationPolicy WhenUnderutilized is WhenEmptyOrUnderutilized now",
        "are those of EC2NodeClass foo-node-class now",
    ):
        assert note in answer.err


def test_the_web_load_gets_one_node_of_its_only_type() -> None:
    (claim,) = placed(simulate("003-web-load"))["nodeClaims"]
    assert (claim["instanceTypes"], claim["offering"]["zone"]) == (["m5.large"], "ap-northeast-1a")
    assert len(claim["pods"]) == 10


EMPTY = """
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c1, labels: {karpenter.sh/nodepool: test-karpenter}, uid: u1}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: test-karpenter}, requirements: []}
status:
  providerID: "aws:///ap-northeast-1a/i-1"
  lastPodEventTime: "2022-08-16T00:00:00Z"
  conditions: [{type: Initialized, status: "True", reason: X, lastTransitionTime: "2022-08-16T00:00:00Z"}]
---
apiVersion: v1
kind: Node
metadata:
  name: ip-10-0-3-1.ap-northeast-1.compute.internal
  labels:
    karpenter.sh/provisioner-name: test-karpenter
    karpenter.sh/initialized: "true"
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: ap-northeast-1a
    karpenter.sh/capacity-type: on-demand
spec: {providerID: "aws:///ap-northeast-1a/i-1"}
status: {allocatable: {cpu: 50m, memory: 1Gi, pods: "29"}, conditions: [{type: Ready, status: "True"}]}
"""


@pytest.mark.parametrize(("second", "gone"), [(29, 0), (31, 1)])
def test_a_node_that_is_empty_for_thirty_seconds_goes(tmp_path: Path, second: int, gone: int) -> None:
    """ttlSecondsAfterEmpty of the web load's Provisioner; the node is too small for its pods and stays empty."""
    (tmp_path / "node.yaml").write_text(EMPTY)
    now = f"2022-08-16T00:00:{second}Z"
    answer = simulate("003-web-load", more=("-f", str(tmp_path / "node.yaml"), "--disruption", "--now", now))
    found = [(entry["reason"], entry["savingPerHour"]) for entry in placed(answer)["disruption"]]
    assert found == [("Empty", 0.124)] * gone


def test_getting_started_uses_the_node_that_is_there_first() -> None:
    plan = placed(simulate("004-getting-started"))
    assert [len(node["pods"]) for node in plan["existingNodes"]] == [1]
    assert sum(len(claim["pods"]) for claim in plan["nodeClaims"]) == 9


def test_accelerators_are_on_types_that_have_them() -> None:
    types = {
        claim["pods"][0]: claim["offering"]["instanceType"]
        for claim in placed(simulate("004-accelerators"))["nodeClaims"]
    }
    assert types["default/nvidia"].startswith("g")
    assert types["default/neuron"].startswith("inf")
