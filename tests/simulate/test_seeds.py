"""The manifests of Karpenter's first users in examples/seeds: planned as they stand, all their pods get places."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.convert.running import convert, validate
from tests.simulate.running import POOL, Answer, command

SEEDS = Path("examples/seeds")
LOADS = Path("examples/simulate")
CATALOGUES = {"003-web-load": "ap-northeast-1", "004-getting-started": "us-east-1"}
NEEDS_ANOTHER = {"001-spot", "001-spread", "001-cluster", "004-cluster"}
"""A pool without a load, a load without a pool, and what is no object of a cluster."""
ALL = sorted(path.stem for path in SEEDS.glob("*.yaml"))
SHOWN = {
    "000": ["Provisioner", "Job"],
    "001": ["Provisioner", "ClusterConfig", "Deployment"],
    "002": [
        "NodePool",
        "EC2NodeClass",
        "ConfigMap karpenter-global-settings",
        "ConfigMap config-logging",
        "Deployment",
    ],
    "003": ["Namespace", "Deployment", "Service", "Ingress", "HorizontalPodAutoscaler", "Provisioner"],
    "004": ["Provisioner", "ClusterConfig", "Deployment"],
}
"""What each article shows, by its number."""


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


@pytest.mark.parametrize("article", SHOWN)
def test_everything_that_an_article_shows_is_there(article: str) -> None:
    bodies = [body for file in SEEDS.glob(f"{article}*.yaml") for body in yaml.safe_load_all(file.read_text())]
    texts = {f"{body['kind']} {body['metadata']['name']}" for body in bodies}
    assert [shown for shown in SHOWN[article] if not any(f"{text} ".startswith(f"{shown} ") for text in texts)] == []


@pytest.mark.parametrize("name", ALL)
def test_every_file_is_right_and_becomes_what_is_right_today(name: str) -> None:
    """`tenon validate` takes it and what `tenon convert` makes of it, in which nothing is of an older version."""
    file = str(SEEDS / f"{name}.yaml")
    assert validate("-f", file, "-o", "json").document["faults"] == []
    converted = convert("-f", file)
    assert (converted.status, converted.err) == (0, "")
    again = validate("-f", "-", "-o", "json", stdin=converted.out).document
    assert again["faults"] == []
    assert not [warning for warning in again["warnings"] if "`tenon convert`" in warning["reason"]]


@pytest.mark.parametrize("name", sorted(set(ALL) - NEEDS_ANOTHER))
def test_the_converted_file_has_the_plan_of_the_old_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / "converted.yaml"
    file.write_text(convert("-f", str(SEEDS / f"{name}.yaml")).out)
    catalogue = ["--catalog", str(SEEDS / f"{CATALOGUES[name]}.json")] if name in CATALOGUES else []
    assert placed(command("-f", str(file), *catalogue, "-o", "json")) == placed(simulate(name))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('    - key: "kubernetes.io/arch"\n\t  operator: In', "7: not YAML: "),
        ('    - key: " karpenter.sh/capacity-type"\n      operator: In', "6: spec.requirements[0].key: "),
        ("    - key: karpenter.k8s.aws/instance-cpu\n      operator: In", "8: spec.requirements[0].values: "),
    ],
    ids=["a tab", "a blank in a key", "bare numbers"],
)
def test_misprints_of_articles_are_reported_with_their_line(line: str, message: str) -> None:
    """As printed: a tab before a field, a blank in a key (004), numbers without quotes (002)."""
    head = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec:\n  requirements:\n"
    text = f"{head}{line}\n      values: [4, 8]\n".replace("[4, 8]", "[4, 8]" if "cpu" in line else '["spot"]')
    result = validate("-f", "-", stdin=text)
    assert result.status == 2
    assert result.out.startswith(f"standard input:{message}")


@pytest.mark.parametrize("name", sorted(set(ALL) - NEEDS_ANOTHER))
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


@pytest.mark.parametrize(("second", "removal"), [(29, 0), (31, 1)])
def test_a_node_that_is_empty_for_thirty_seconds_goes(tmp_path: Path, second: int, removal: int) -> None:
    """ttlSecondsAfterEmpty of the web load's Provisioner; the node is too small for its pods and stays empty."""
    (tmp_path / "node.yaml").write_text(EMPTY)
    now = f"2022-08-16T00:00:{second}Z"
    answer = simulate("003-web-load", more=("-f", str(tmp_path / "node.yaml"), "--disruption", "--now", now))
    reasons = [(entry["reason"], entry["savingPerHour"]) for entry in placed(answer)["disruption"]]
    assert reasons == [("Empty", 0.124)] * removal


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


def test_without_a_catalogue_of_its_region_a_note_names_the_option() -> None:
    """The zones are what no type meets, and the catalogue, not the pool, is what must be changed."""
    answer = command("-f", str(SEEDS / "003-web-load.yaml"), "-o", "json")
    (reason,) = {entry["reason"] for entry in answer.plan["unschedulable"]}
    assert "meets its requirement topology.kubernetes.io/zone In [ap-northeast-1" in reason
    assert "(available: us-west-2a, us-west-2b" in reason
    assert "knows us-west-2 only: name one of your region with --catalog" in answer.err


def test_a_misspelled_type_is_not_blamed_on_the_region(tmp_path: Path) -> None:
    requirement = "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.lrage]}, "
    file = tmp_path / "pool.yaml"
    file.write_text(POOL.replace("requirements: [", requirement))
    answer = command("-f", str(file), "-o", "json")
    assert "note: NodePool default: no available instance type meets its requirement" in answer.err
    assert "(the most similar is m5.large)" in answer.err
    assert "us-west-2 only" not in answer.err
