"""What is taken off Nodes and NodeClaims that Karpenter goes on with (docs/migrate.md)."""

from __future__ import annotations

from typing import Any

from tenon.node.handback import handed_back

DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
OWN = {"key": "dedicated", "value": "team-a", "effect": "NoSchedule"}


def node(*taints: dict[str, str], spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": "n", **metadata}, "spec": {"taints": list(taints), **(spec or {})}}


def test_marks_of_tenons_go_and_all_others_stay() -> None:
    claim = {
        "kind": "NodeClaim",
        "metadata": {
            "labels": {"tenon.sh/batch": "7", "karpenter.sh/nodepool": "default"},
            "annotations": {"tenon.sh/planned-pods": "a/b=c", "karpenter.sh/nodepool-hash": "1"},
        },
    }
    assert handed_back(claim) == {
        "metadata": {"labels": {"tenon.sh/batch": None}, "annotations": {"tenon.sh/planned-pods": None}}
    }


def test_a_node_that_tenon_closed_is_opened() -> None:
    """Nobody else would: kube-scheduler would leave the node empty for ever."""
    closed = node(CORDON, OWN, annotations={"tenon.sh/closed": "true"}, spec={"unschedulable": True})
    assert handed_back(closed) == {
        "metadata": {"annotations": {"tenon.sh/closed": None}},
        "spec": {"unschedulable": None, "taints": [OWN]},
    }


def test_a_node_that_a_person_cordoned_stays_so() -> None:
    assert handed_back(node(CORDON, spec={"unschedulable": True})) == {}


def test_tnt01_lbl10_a_disruption_that_will_not_happen_is_undone() -> None:
    label = "node.kubernetes.io/exclude-from-external-load-balancers"
    tainted = node(OWN, DISRUPTED, labels={label: "karpenter"})
    assert handed_back(tainted) == {"metadata": {"labels": {label: None}}, "spec": {"taints": [OWN]}}


def test_a_node_that_is_closed_and_tainted_loses_both_marks() -> None:
    pair = node(OWN, DISRUPTED, CORDON, annotations={"tenon.sh/closed": "true"}, spec={"unschedulable": True})
    assert handed_back(pair)["spec"] == {"unschedulable": None, "taints": [OWN]}


def test_a_node_that_is_being_deleted_keeps_its_taint() -> None:
    """Karpenter goes on with its drain."""
    assert handed_back(node(DISRUPTED, deletionTimestamp="2026-01-01T00:00:00Z")) == {}


def test_n15_649_a_nodeclaim_in_the_middle_of_its_drain_keeps_what_karpenter_goes_on_with() -> None:
    """Its deadline, its finalizer and its deletion. Only what Tenon alone reads goes, except its count of reboots."""
    metadata = {
        "name": "c",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["karpenter.sh/termination"],
        "annotations": {
            "karpenter.sh/nodeclaim-termination-timestamp": "2026-01-01T01:00:00Z",
            "karpenter.sh/do-not-repair": "true",
            "tenon.sh/removal": "drain",
            "tenon.sh/reboots": "2026-01-01T00:00:00Z",
        },
    }
    assert handed_back({"kind": "NodeClaim", "metadata": metadata}) == {
        "metadata": {"annotations": {"tenon.sh/removal": None}}
    }


def test_a_warm_node_loses_the_taint_that_keeps_pods_away() -> None:
    """Karpenter does not know the taint, so no pod would ever run on the node."""
    warm = {"key": "tenon.sh/warm", "effect": "NoSchedule"}
    assert handed_back(node(warm, OWN)) == {"spec": {"taints": [OWN]}}
    closed = node(warm, OWN, CORDON, annotations={"tenon.sh/closed": "true"}, spec={"unschedulable": True})
    assert handed_back(closed)["spec"] == {"unschedulable": None, "taints": [OWN]}


def test_what_karpenter_made_needs_no_change() -> None:
    assert handed_back(node(OWN, labels={"karpenter.sh/registered": "true"})) == {}
