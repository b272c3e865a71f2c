"""What lies around the old objects: kubelet settings in their classes, and what pods and nodes carry."""

from __future__ import annotations

from typing import Any

from tenon.apis.legacy.kubelets import Moved, move_kubelets
from tenon.apis.legacy.pods_and_nodes import convert_node, convert_pod
from tenon.apis.legacy.v1beta1 import convert_nodeclass, convert_nodepool
from tests.tenon.apis.legacy.sound import manifest, sound
from tests.tenon.apis.legacy.v1beta1_manifests import CLASS, NODE


def moved(classes: tuple[str, ...] = ("foo",), **kubelets: dict[str, Any]) -> Moved:
    """The pools named, with these kubelet settings, and the class that all of them refer to."""
    pools = {}
    for name, kubelet in kubelets.items():
        spec = {"template": {"spec": {**NODE, "kubelet": kubelet}}}
        old = {**manifest("karpenter.sh/v1beta1", "NodePool", spec), "metadata": {"name": name}}
        pools[name] = sound(convert_nodepool(old))[0]
    output = {}
    for name in classes:
        old = {**manifest("karpenter.k8s.aws/v1beta1", "EC2NodeClass", CLASS), "metadata": {"name": name, "uid": "u"}}
        output[name] = sound(convert_nodeclass(old))[0]
    return move_kubelets(pools, output, set(kubelets))


def class_named(pool: Any) -> str:
    return str(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"])


def test_v1b04_pools_that_agree_give_their_settings_to_the_class() -> None:
    result = moved(a={"maxPods": 5}, b={"maxPods": 5})
    assert result.classes["foo"]["spec"]["kubelet"] == {"maxPods": 5}
    assert {class_named(pool) for pool in result.pools.values()} == {"foo"}
    assert not any("kubelet" in key for pool in result.pools.values() for key in pool["metadata"]["annotations"])
    assert "maxPods" in result.notes["a"]


def test_v1b04_pools_that_differ_get_classes_of_their_own() -> None:
    result = moved(a={"maxPods": 5}, b={"maxPods": 9}, c={})
    assert set(result.classes) == {"foo-a", "foo-b"}
    assert result.classes["foo-b"]["spec"]["kubelet"] == {"maxPods": 9}
    assert result.classes["foo-b"]["metadata"] == {"name": "foo-b"}
    assert {name: class_named(pool) for name, pool in result.pools.items()} == {"a": "foo-a", "b": "foo-b"}


def test_v1b04_without_the_class_the_settings_wait() -> None:
    result = moved((), a={"maxPods": 5})
    assert (result.pools, result.classes) == ({}, {})
    assert "EC2NodeClass foo, which is missing" in result.notes["a"]


def test_nothing_to_move_changes_nothing() -> None:
    assert moved(a={}, b={}) == Moved()


def test_leg14_v1b11_nodes_carry_the_names_of_today() -> None:
    old = {
        "metadata": {
            "name": "n",
            "labels": {"karpenter.sh/provisioner-name": "p", "x": "y"},
            "annotations": {"karpenter.sh/do-not-consolidate": "true"},
        },
        "spec": {
            "taints": [
                {"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"},
                {"key": "mine", "effect": "NoExecute"},
            ]
        },
    }
    node, notes = convert_node(old)
    assert node["metadata"]["labels"] == {"karpenter.sh/nodepool": "p", "x": "y"}
    assert node["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert node["spec"]["taints"] == [
        {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
        {"key": "mine", "effect": "NoExecute"},
    ]
    assert len(notes) == 3


def test_v1b13_pods_that_must_not_be_evicted_must_not_be_disrupted() -> None:
    pod, notes = convert_pod({"metadata": {"annotations": {"karpenter.sh/do-not-evict": "true", "a": "b"}}})
    assert pod["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true", "a": "b"}
    assert len(notes) == 1


def test_leg14_pods_choose_their_pool_by_its_label() -> None:
    term = {"matchExpressions": [{"key": "karpenter.sh/provisioner-name", "operator": "In", "values": ["p"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod, notes = convert_pod(
        {"spec": {"nodeSelector": {"karpenter.sh/provisioner-name": "p"}, "affinity": {"nodeAffinity": required}}}
    )
    assert pod["spec"]["nodeSelector"] == {"karpenter.sh/nodepool": "p"}
    assert "provisioner-name" not in str(pod)
    assert str(pod).count("karpenter.sh/nodepool") == 2
    assert len(notes) == 1


def test_pods_and_nodes_of_today_stay_as_they_are() -> None:
    for convert in (convert_pod, convert_node):
        old: dict[str, Any] = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"nodeSelector": {"a": "b"}}}
        assert convert(old) == (old, [])
