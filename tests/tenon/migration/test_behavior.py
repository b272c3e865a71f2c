"""What would behave otherwise under Tenon, object by object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenon.migration.behavior import MigratedObjects, differences

Object = dict[str, Any]


def obj(kind: str, name: str, spec: Object | None = None, **metadata: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}, "status": {}}


def rows(**objects: Any) -> list[tuple[str, str]]:
    return [(f"{item.kind} {item.name}", item.row) for item in differences(MigratedObjects(**objects))]


def hashed(kind: str, name: str, digest: str, version: str = "v3", **more: Any) -> Object:
    annotations = {"karpenter.sh/nodepool-hash": digest, "karpenter.sh/nodepool-hash-version": version}
    return obj(kind, name, annotations=annotations, **more)


def test_qrk15_a_change_that_karpenter_has_not_acted_on_no_longer_counts() -> None:
    pool = hashed("NodePool", "a", "2")
    pool["spec"] = {"disruption": {"consolidateAfter": "Never"}}
    of_pool: dict[str, Any] = {"labels": {"karpenter.sh/nodepool": "a"}}
    drifted = hashed("NodeClaim", "drifted", "1", **of_pool)
    drifted["status"] = {"conditions": [{"type": "Drifted", "status": "True"}]}
    claims = [
        hashed("NodeClaim", "late", "1", **of_pool),
        hashed("NodeClaim", "same", "2", **of_pool),
        hashed("NodeClaim", "older", "1", "v2", **of_pool),
        drifted,
    ]
    assert rows(pools=[pool], claims=claims) == [("NodeClaim late", "QRK-15")]


def test_qrk01_a_node_that_karpenter_only_tainted_is_named() -> None:
    tainted = {"taints": [{"key": "karpenter.sh/disrupted"}], "providerID": "aws:///a/i-1"}
    leaving = obj("NodeClaim", "leaving", deletionTimestamp="2026-05-04T12:00:00Z")
    leaving["status"] = {"providerID": "aws:///a/i-2"}
    nodes = [obj("Node", "begun", tainted), obj("Node", "leaving", {**tainted, "providerID": "aws:///a/i-2"})]
    assert rows(nodes=nodes, claims=[leaving]) == [("Node begun", "QRK-01")]


def test_gates_decide_what_is_said_of_static_pools_overlays_and_repair() -> None:
    closed = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
    static = obj("NodePool", "static", {"replicas": 2, "disruption": closed})
    overlay = obj("NodeOverlay", "cheap")
    assert rows(pools=[static], overlays=[overlay]) == [("NodePool static", "GAT-05"), ("NodeOverlay cheap", "GAT-04")]
    gates = {"StaticCapacity": True, "NodeOverlay": True, "NodeRepair": True}
    expected = [("NodePool static", "DIS-02"), ("NodePool static", "N15-128")]
    assert rows(pools=[static], overlays=[overlay], gates=gates) == expected


def test_pods_that_tenon_treats_otherwise_are_named() -> None:
    key = "controller.kubernetes.io/pod-deletion-cost"
    pods = [
        obj("Pod", "claims", {"resourceClaims": [{"name": "gpu"}]}, namespace="a"),
        obj("Pod", "selects", {"nodeSelector": {"karpenter.sh/initialized": "true"}}, namespace="a"),
        obj("Pod", "cheap", namespace="a", annotations={key: "-5"}),
        obj("Pod", "plain", namespace="a"),
    ]
    assert rows(pods=pods) == [("Pod a/claims", "SCH-096"), ("Pod a/selects", "LBL-03"), ("Pod a/cheap", "DIS-23")]
    managed = {"PodDeletionCostManagement": True}
    assert rows(pods=[pods[2]], gates=managed) == [("Pod a/cheap", "N15-646")]


def test_classes_that_will_not_be_ready_are_named() -> None:
    flags = obj("EC2NodeClass", "flags", {"userData": "kind: NodeConfig\n--register-with-taints=a"})
    rocket = obj(
        "EC2NodeClass",
        "rocket",
        {"amiSelectorTerms": [{"alias": "bottlerocket@v1.20.3"}], "kubelet": {"kubeReserved": {"pid": "100"}}},
    )
    assert rows(classes=[flags, rocket]) == [("EC2NodeClass flags", "AWS-097"), ("EC2NodeClass rocket", "AWS-098")]


def test_objects_of_before_v1beta1_are_named_one_by_one() -> None:
    old = [obj("Provisioner", "default"), obj("Machine", "m")]
    node = obj("Node", "n", labels={"karpenter.sh/provisioner-name": "default"})
    assert rows(old=old, nodes=[node]) == [
        ("Provisioner default", "LEG-01"),
        ("Machine m", "LEG-01"),
        ("Node n", "LEG-01"),
    ]


def test_objects_of_eks_auto_mode_are_not_tenons_business() -> None:
    reference = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    pool = obj("NodePool", "auto", {"replicas": 2, "template": {"spec": {"nodeClassRef": reference}}})
    assert rows(pools=[pool]) == []


def test_every_row_that_a_rule_names_is_in_the_table_of_parity() -> None:
    source = Path("tenon/migration/behavior.py").read_text(encoding="utf-8")
    parity = Path("docs/parity.md").read_text(encoding="utf-8")
    quoted = {part for part in source.split('"') if part[:3].isupper() or part[:3] == "N15"}
    named_rows = {part for part in quoted if part[-2:].isdigit() and "-" in part}
    assert len(named_rows) > 12
    assert not {row for row in named_rows if row not in parity}
