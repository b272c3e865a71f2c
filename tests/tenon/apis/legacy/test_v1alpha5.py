"""Provisioner and Machine as NodePool and NodeClaim (LEG-01 to LEG-22)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.conversion import Converted
from tenon.apis.legacy.v1alpha5 import convert_machine, convert_provisioner
from tests.tenon.apis.case import taint, term
from tests.tenon.apis.legacy.sound import manifest, problems, sound

SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"c": "*"}}
KUBELET: dict[str, Any] = {
    "clusterDNS": ["10.0.1.100"],
    "maxPods": 20,
    "podsPerCore": 2,
    "systemReserved": {"cpu": "100m"},
    "kubeReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "5%"},
    "evictionSoft": {"memory.available": "500Mi"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "cpuCFSQuota": True,
}
WRITTEN_OUT = [
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
]


def provisioner(edits: dict[str, Any] | None = None, **metadata: Any) -> Converted:
    spec = {"providerRef": {"name": "mine"}}
    return convert_provisioner(manifest("karpenter.sh/v1alpha5", "Provisioner", spec, edits, **metadata))


def pool(edits: dict[str, Any] | None = None, **metadata: Any) -> Any:
    (result,) = sound(provisioner(edits, **metadata))
    return result


def test_leg01_to_leg03_what_nodes_carry() -> None:
    edits = {
        "annotations": {"owner": "me"},
        "labels": {"billing-team": "my-team"},
        "taints": [taint("example.com/special-taint")],
        "startupTaints": [taint("example.com/another", "NoExecute")],
    }
    template = pool(edits)["spec"]["template"]
    assert template["metadata"] == {"annotations": edits["annotations"], "labels": edits["labels"]}
    assert template["spec"]["taints"] == edits["taints"]
    assert template["spec"]["startupTaints"] == edits["startupTaints"]


def test_leg04_requirements_stay() -> None:
    terms = [
        term("a", "In", "b"),
        term("a", "NotIn", "c"),
        term("karpenter.k8s.aws/instance-cpu", "Gt", "4"),
        term("karpenter.k8s.aws/instance-cpu", "Lt", "40"),
        term("d", "Exists"),
        term("e", "DoesNotExist"),
    ]
    assert pool({"requirements": terms})["spec"]["template"]["spec"]["requirements"][:6] == terms


def test_leg05_kubelet_settings_wait_for_the_class_without_container_runtime() -> None:
    converted = provisioner({"kubeletConfiguration": {**KUBELET, "containerRuntime": "dockerd"}})
    (result,) = sound(converted)
    assert json.loads(result["metadata"]["annotations"][labels.V1BETA1_KUBELET]) == KUBELET
    assert any("containerRuntime is dropped" in note for note in converted.notes)


def test_leg06_the_provider_that_is_named_is_the_class() -> None:
    assert pool()["spec"]["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "mine",
    }


def test_leg06_a_provider_that_is_held_becomes_a_class_of_the_pools_name() -> None:
    old = manifest("karpenter.sh/v1alpha5", "Provisioner", {"provider": {**SELECTORS, "instanceProfile": "p"}})
    result, output = sound(convert_provisioner(old))
    assert result["spec"]["template"]["spec"]["nodeClassRef"]["name"] == output["metadata"]["name"] == "case"
    assert output["spec"]["instanceProfile"] == "p"
    assert output["spec"]["subnetSelectorTerms"] == [{"tags": {"a": "b"}}]


def test_leg06_a_provider_that_says_little_is_taken_with_notes() -> None:
    old = manifest("karpenter.sh/v1alpha5", "Provisioner", {"provider": {}})
    converted = convert_provisioner(old, Defaults(cluster="demo"))
    _, output = sound(converted)
    assert output["spec"]["role"] == "KarpenterNodeRole-demo"
    notes = " ".join(converted.notes)
    for text in ("no subnets", "no security groups", "no instance profile"):
        assert text in notes


def test_leg06_both_is_refused_and_neither_means_the_class_default() -> None:
    assert "providerRef exclude each other" in problems(provisioner({"provider": SELECTORS}))[0]
    converted = convert_provisioner(manifest("karpenter.sh/v1alpha5", "Provisioner", {}))
    (result,) = sound(converted)
    assert result["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default"
    assert any("names no provider" in note for note in converted.notes)


def test_leg06_what_is_wrong_in_the_provider_has_its_path() -> None:
    old = manifest("karpenter.sh/v1alpha5", "Provisioner", {"provider": {"amiFamily": "Debian"}})
    (problem,) = problems(convert_provisioner(old))
    assert problem.startswith("spec.provider.amiFamily: ")


@pytest.mark.parametrize(
    ("value", "policy", "after"),
    [
        ({}, "WhenEmpty", "Never"),
        ({"ttlSecondsAfterEmpty": 30}, "WhenEmpty", "30s"),
        ({"ttlSecondsAfterEmpty": 0}, "WhenEmpty", "0s"),
        ({"ttlSecondsAfterEmpty": 600}, "WhenEmpty", "10m"),
        ({"consolidation": {"enabled": True}}, "WhenEmptyOrUnderutilized", "0s"),
        ({"consolidation": {"enabled": False}, "ttlSecondsAfterEmpty": 5}, "WhenEmpty", "5s"),
    ],
    ids=str,
)
def test_leg07_leg09_when_nodes_go(value: dict[str, Any], policy: str, after: str) -> None:
    """And all at once, as when there were no budgets."""
    assert pool(value)["spec"]["disruption"] == {
        "consolidationPolicy": policy,
        "consolidateAfter": after,
        "budgets": [{"nodes": "100%"}],
    }


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": True}}, "spec.ttlSecondsAfterEmpty: and cons"),
        ({"ttlSecondsAfterEmpty": -1}, "spec.ttlSecondsAfterEmpty"),
        ({"ttlSecondsUntilExpired": -1}, "spec.ttlSecondsUntilExpired"),
        ({"ttlSecondsUntilExpired": "30d"}, "spec.ttlSecondsUntilExpired"),
    ],
    ids=str,
)
def test_leg07_to_leg09_what_was_refused(value: dict[str, Any], why: str) -> None:
    assert why in problems(provisioner(value))[0]


@pytest.mark.parametrize(("seconds", "expiry"), [(None, "Never"), (2_592_000, "720h"), (900, "15m"), (61, "61s")])
def test_leg08_expiry(seconds: int | None, expiry: str) -> None:
    value = {} if seconds is None else {"ttlSecondsUntilExpired": seconds}
    assert pool(value)["spec"]["template"]["spec"]["expireAfter"] == expiry


def test_leg10_to_leg12_limits_weight_and_status() -> None:
    limits = {"cpu": "1000", "memory": "1000Gi"}
    old = manifest("karpenter.sh/v1alpha5", "Provisioner", {"limits": {"resources": limits}, "weight": 10})
    status = {"resources": {"cpu": "4"}, "lastScaleTime": "2022-01-01T00:00:00Z", "conditions": [{"type": "Active"}]}
    (result,) = sound(convert_provisioner({**old, "status": status}))
    assert (result["spec"]["limits"], result["spec"]["weight"]) == (limits, 10)
    assert result["status"] == {"resources": {"cpu": "4"}}


def test_leg13_what_was_added_by_default_is_written_out() -> None:
    converted = provisioner()
    (result,) = sound(converted)
    assert result["spec"]["template"]["spec"]["requirements"] == WRITTEN_OUT
    assert any("instance-generation Gt [2]" in note for note in converted.notes)


@pytest.mark.parametrize(
    ("declaration", "remainder"),
    [
        (term("kubernetes.io/os", "In", "windows"), WRITTEN_OUT[1:]),
        (term("beta.kubernetes.io/arch", "In", "arm64"), [WRITTEN_OUT[0], *WRITTEN_OUT[2:]]),
        (term("karpenter.sh/capacity-type", "In", "spot"), [*WRITTEN_OUT[:2], *WRITTEN_OUT[3:]]),
        *(
            (term(key, "Exists"), WRITTEN_OUT[:3])
            for key in (
                "node.kubernetes.io/instance-type",
                "karpenter.k8s.aws/instance-family",
                "karpenter.k8s.aws/instance-category",
                "karpenter.k8s.aws/instance-generation",
            )
        ),
    ],
    ids=str,
)
def test_leg13_what_is_stated_is_not_added(declaration: dict[str, Any], remainder: list[dict[str, Any]]) -> None:
    assert pool({"requirements": [declaration]})["spec"]["template"]["spec"]["requirements"] == [
        declaration,
        *remainder,
    ]


def test_leg14_names_of_the_provisioner_are_those_of_the_pool() -> None:
    result = pool(annotations={"karpenter.sh/provisioner-hash": "1", "a": "b"}, labels={"x": "y"})
    assert result["metadata"] == {"name": "case", "annotations": {"a": "b"}, "labels": {"x": "y"}}
    converted = provisioner({"requirements": [term("karpenter.sh/provisioner-name", "In", "case")]})
    assert sound(converted)[0]["spec"]["template"]["spec"]["requirements"] == WRITTEN_OUT


@pytest.mark.parametrize("label", ["karpenter.k8s.aws/instance-pods", "karpenter.k8s.aws/instance-ami-id"])
def test_leg43_requirements_on_labels_that_are_no_more_are_dropped(label: str) -> None:
    converted = provisioner({"requirements": [term(label, "Exists")]})
    assert sound(converted)[0]["spec"]["template"]["spec"]["requirements"] == WRITTEN_OUT
    assert any(label in note for note in converted.notes)


def machine(edits: dict[str, Any] | None = None, **metadata: Any) -> Any:
    return manifest("karpenter.sh/v1alpha5", "Machine", {"machineTemplateRef": {"name": "mine"}}, edits, **metadata)


def test_leg20_a_machine_is_a_nodeclaim() -> None:
    edits = {
        "taints": [taint("a")],
        "startupTaints": [taint("b")],
        "requirements": [term("team", "In", "x")],
        "resources": {"requests": {"cpu": "1"}},
        "kubelet": {"maxPods": 5},
    }
    owned = machine(edits, labels={"karpenter.sh/provisioner-name": "p"})
    (result,) = sound(convert_machine(owned, {"p": "15m"}))
    assert result["kind"] == "NodeClaim"
    assert result["metadata"]["labels"] == {"karpenter.sh/nodepool": "p"}
    assert {name: result["spec"][name] for name in edits if name != "kubelet"} == {
        name: value for name, value in edits.items() if name != "kubelet"
    }
    assert json.loads(result["metadata"]["annotations"][labels.V1BETA1_KUBELET]) == {"maxPods": 5}
    assert result["spec"]["nodeClassRef"]["name"] == "mine"
    assert result["spec"]["expireAfter"] == "15m"


def test_leg21_conditions_lose_their_prefix() -> None:
    kinds = ("Launched", "Registered", "Initialized", "Drifted", "Empty", "Expired")
    conditions = [
        {"type": f"Machine{kind}", "status": "True", "lastTransitionTime": "2023-01-01T00:00:00Z"} for kind in kinds
    ]
    (result,) = sound(
        convert_machine({**machine(), "status": {"conditions": conditions, "providerID": "aws:///z/i-1"}})
    )
    assert [c["type"] for c in result["status"]["conditions"]] == list(kinds[:4])
    assert result["status"]["providerID"] == "aws:///z/i-1"


def test_leg22_annotations_of_machines_go() -> None:
    annotations = {"karpenter.sh/linked": "x", "karpenter.sh/managed-by": "y", "karpenter.sh/emptiness-timestamp": "z"}
    (result,) = sound(convert_machine(machine(annotations=annotations)))
    assert "annotations" not in result["metadata"]
