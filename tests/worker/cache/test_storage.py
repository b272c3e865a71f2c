"""Pods with volumes: what they ask of a node, why they cannot run yet, and who hears when that changes."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.kube.pod import LocalDisk
from tenon.kube.records import PodRecord
from tenon.kube.volumes import BIND_COMPLETED, SELECTED_NODE
from tests.worker.cache.objects import (
    csi_node,
    default_class,
    ephemeral,
    mounting,
    namespace,
    node,
    pod,
    pvc,
    running,
    storage_class,
    volume,
    waiting,
)
from worker.cache.capacity import scheduling_nodes
from worker.cache.changes import Topic
from worker.cache.state import ClusterState

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
BOUND = pvc(volumeName="vol")
UNBOUND = pvc(phase="Pending", storageClassName="waits")


def state(*records: Any, pvcs: Any = (), volumes: Any = (), classes: Any = ()) -> ClusterState:
    found = ClusterState(clock=lambda: 0.0)
    for record in records:
        found.pods.on_event(record.key, record)
    for table, given in (
        (found.storage.pvcs, pvcs),
        (found.storage.volumes, volumes),
        (found.storage.classes, classes),
    ):
        for record in given:
            table.on_event(record.key, record)
    return found


def asked(found: ClusterState, record: PodRecord) -> list[str]:
    """The alternatives of where the pod's volumes can be reached."""
    seen = found.scheduling_pod(record)
    assert seen.unsupported == ""
    return [str(term) for term in seen.volume_terms]


WITH_DATA = waiting(volumes=mounting("data"))


def zone(*names: str) -> str:
    return f"topology.kubernetes.io/zone In [{' '.join(names)}]"


def test_a_bound_claim_holds_its_pod_where_its_volume_is_sch_070() -> None:
    found = state(pvcs=[BOUND], volumes=[volume("vol", "a", "b")])
    assert asked(found, WITH_DATA) == [zone("a"), zone("b")]
    assert found.scheduling_pod(WITH_DATA).attachments == (("ebs.csi.aws.com", "ns/data"),)
    assert asked(state(pvcs=[BOUND], volumes=[volume("vol")]), WITH_DATA) == [], "it can be reached from everywhere"


def test_alternatives_of_several_volumes_are_crossed_sch_070() -> None:
    both = waiting(volumes=mounting("one", "two"))
    pvcs = [pvc("one", volumeName="v1"), pvc("two", volumeName="v2")]
    found = state(pvcs=pvcs, volumes=[volume("v1", "a", "b"), volume("v2", "b", "c")])
    assert asked(found, both) == [zone("b")]
    found.storage.volumes.on_event("v2", volume("v2", "c"))
    assert "different zones" in found.scheduling_pod(both).unsupported


@pytest.mark.parametrize(
    ("texts", "zones"),
    [
        ({"topology.kubernetes.io/zone": "a"}, ["a"]),
        ({"failure-domain.beta.kubernetes.io/zone": "b"}, ["b"]),
        ({"topology.kubernetes.io/zone": "a__c"}, ["a", "c"]),
        ({"topology.kubernetes.io/zone": "a__b", "failure-domain.beta.kubernetes.io/zone": "b"}, ["b"]),
    ],
)
def test_zone_labels_of_a_volume_hold_its_pod_sch_070(texts: dict[str, str], zones: list[str]) -> None:
    labeled = volume("vol", meta={"labels": texts})
    assert asked(state(pvcs=[BOUND], volumes=[labeled]), WITH_DATA) == [zone(*zones)]
    narrower = volume("vol", zones[-1], "x", meta={"labels": texts})
    assert asked(state(pvcs=[BOUND], volumes=[narrower]), WITH_DATA) == [zone(zones[-1])]


def test_a_zone_label_with_an_empty_part_does_not_count_sch_070() -> None:
    labeled = volume("vol", meta={"labels": {"topology.kubernetes.io/zone": "a__"}})
    assert asked(state(pvcs=[BOUND], volumes=[labeled]), WITH_DATA) == []


def test_a_zone_label_that_contradicts_the_node_affinity_leaves_no_node_sch_070() -> None:
    labeled = volume("vol", "b", meta={"labels": {"topology.kubernetes.io/zone": "a"}})
    found = state(pvcs=[BOUND], volumes=[labeled])
    assert (
        "claim ns/data matches no node, by its node affinity and its zone labels"
        in found.scheduling_pod(WITH_DATA).unsupported
    )


def test_sch071_a_claim_whose_node_is_selected_holds_its_pod_there() -> None:
    """kube-scheduler refuses every other node until the annotation is removed."""
    chosen = pvc(phase="Pending", storageClassName="waits", meta={"annotations": {SELECTED_NODE: "n1"}})
    found = state(pvcs=[chosen], classes=[storage_class("waits")])
    assert asked(found, WITH_DATA) == ["kubernetes.io/hostname In [n1]"]


def test_sch071_a_selected_node_does_not_count_once_the_volume_is_bound() -> None:
    bound = pvc(volumeName="vol", meta={"annotations": {SELECTED_NODE: "n1", BIND_COMPLETED: "yes"}})
    assert asked(state(pvcs=[bound], volumes=[volume("vol", "a")]), WITH_DATA) == [zone("a")]


def test_sch070_a_claim_of_one_pod_at_a_time_is_known() -> None:
    found = state(pvcs=[pvc(volumeName="vol", accessModes=["ReadWriteOncePod"])], volumes=[volume("vol")])
    assert found.scheduling_pod(WITH_DATA).exclusive == ("ns/data",)
    assert state(pvcs=[BOUND], volumes=[volume("vol")]).scheduling_pod(WITH_DATA).exclusive == ()


@pytest.mark.parametrize("source", ["local", "hostPath"])
def test_a_disk_of_a_machine_does_not_tie_its_pod_to_that_machine_sch_070(source: str) -> None:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"]}
    place = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host, place]}]}}
    disk = volume("vol", nodeAffinity=affinity, **{source: {"path": "/disk"}, "csi": None})
    found = state(pvcs=[BOUND], volumes=[disk])
    assert asked(found, WITH_DATA) == [zone("a")]
    assert found.scheduling_pod(WITH_DATA).local_disks == (LocalDisk("vol", "ns/data", frozenset({"gone"})),)


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ({"operator": "NotIn", "values": ["a"]}, {"local": {"path": "/disk"}, "csi": None}),
        ({"operator": "Exists"}, {"hostPath": {"path": "/disk"}, "csi": None}),
        ({"operator": "In", "values": ["a"]}, {}),
    ],
    ids=["any other machine", "any machine", "a driver's volume"],
)
def test_a_volume_that_names_no_machine_or_has_a_driver_is_no_local_disk_sch_070(
    host: dict[str, Any], source: dict[str, Any]
) -> None:
    expression = {"key": "kubernetes.io/hostname", **host}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    found = state(pvcs=[BOUND], volumes=[volume("vol", nodeAffinity=affinity, **source)])
    assert found.scheduling_pod(WITH_DATA).local_disks == ()


def test_a_claim_that_waits_for_its_pod_is_made_where_its_class_allows_sch_071() -> None:
    found = state(pvcs=[UNBOUND], classes=[storage_class("waits", "a", "b")])
    assert asked(found, WITH_DATA) == [zone("a", "b")]
    assert asked(state(pvcs=[UNBOUND], classes=[storage_class("waits")]), WITH_DATA) == []


def test_the_newest_default_class_speaks_for_claims_without_one_sch_071() -> None:
    found = state(pvcs=[pvc(phase="Pending")], classes=[default_class("old", "a")])
    assert asked(found, WITH_DATA) == [zone("a")]
    found.storage.classes.on_event("new", default_class("new", "b", created="2026-01-02T00:00:00Z"))
    assert asked(found, WITH_DATA) == [zone("b")]
    found.storage.classes.on_event("new", None)
    assert asked(found, WITH_DATA) == [zone("a")]


def test_an_ephemeral_volume_uses_its_template_until_its_claim_is_made_sch_073() -> None:
    record = waiting(volumes=ephemeral(storageClassName="waits"))
    found = state(classes=[storage_class("waits", "a", "b")], volumes=[volume("vol", "b")])
    assert asked(found, record) == [zone("a", "b")]
    made = pvc("p-tmp", volumeName="vol")
    found.storage.pvcs.on_event(made.key, made)
    assert asked(found, record) == [zone("b")]


CSI: dict[str, Any] = {"csi": {"driver": "ebs.csi.eks.amazonaws.com"}}
AUTO: dict[str, Any] = {
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "eks.amazonaws.com/compute-type", "values": ["auto"]}]}]
}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        pytest.param({}, "its volume claim ns/data does not exist: create it", id="no claim"),
        pytest.param({"pvcs": [pvc(meta=LEAVING, volumeName="vol")]}, "is being deleted", id="claim leaves"),
        pytest.param({"pvcs": [pvc(phase="Lost", volumeName="vol")]}, "has lost its volume vol", id="lost"),
        pytest.param({"pvcs": [BOUND]}, "the volume vol of its claim ns/data does not exist", id="no volume"),
        pytest.param(
            {"pvcs": [BOUND], "volumes": [volume(meta=LEAVING)]},
            "the volume vol of its claim ns/data is being deleted",
            id="volume leaves",
        ),
        pytest.param(
            {"pvcs": [pvc(meta={"annotations": {}}, volumeName="vol")], "volumes": [volume()]},
            "is not bound to the volume vol yet",
            id="reserved and not bound",
        ),
        pytest.param({"pvcs": [UNBOUND]}, "of the unknown StorageClass waits", id="no class of that name"),
        pytest.param({"pvcs": [pvc()]}, "not bound and without a StorageClass", id="no default class"),
        pytest.param(
            {"pvcs": [pvc(storageClassName="")], "classes": [default_class("d")]},
            "not bound and without a StorageClass",
            id="no class wanted",
        ),
        pytest.param(
            {"pvcs": [UNBOUND], "classes": [storage_class(volumeBindingMode="Immediate")]},
            "not bound yet, and its StorageClass binds at once",
            id="immediate",
        ),
        pytest.param(
            {"pvcs": [BOUND], "volumes": [volume(**CSI)]}, "runs on nodes of EKS Auto Mode only", id="their driver"
        ),
        pytest.param(
            {"pvcs": [UNBOUND], "classes": [storage_class(**AUTO)]},
            "allows only nodes of EKS Auto Mode",
            id="their key",
        ),
    ],
)
def test_a_claim_that_no_node_can_serve_is_a_reason_sch_004(tables: dict[str, Any], words: str) -> None:
    seen = state(**tables).scheduling_pod(WITH_DATA)
    assert words in seen.unsupported
    assert seen.volume_terms == ()


def test_a_pods_own_mistakes_are_reported_first() -> None:
    record = waiting(volumes=mounting("data"), resourceClaims=[{"name": "gpu"}])
    assert "dynamic resource claims" in state().scheduling_pod(record).unsupported


def test_a_waiting_pod_is_news_when_its_volumes_change_and_only_then() -> None:
    other = waiting("other", volumes=mounting("elsewhere"))
    there = running("there", "n", volumes=mounting("data"))
    found = state(WITH_DATA, other, there, waiting("plain"))
    for record in (WITH_DATA, other, there):
        found.scheduling_pod(record)
    with found.subscribe([Topic.PENDING]) as news:
        for table, record in (
            (found.storage.pvcs, UNBOUND),
            (found.storage.classes, storage_class("waits", "a")),
            (found.storage.pvcs, BOUND),
            (found.storage.volumes, volume("vol", "a")),
        ):
            before = found.scheduling_pod(WITH_DATA)
            table.on_event(record.key, record)
            assert news.take() == [(Topic.PENDING, "ns/p")], record
            assert found.scheduling_pod(WITH_DATA) != before
        found.storage.classes.on_event("waits", None)
        found.storage.volumes.on_event("unknown", volume("unknown"))
        assert news.take() == [], "it is bound: its class no longer matters"
        found.storage.pvcs.on_event("ns/data", None)
        assert news.take() == [(Topic.PENDING, "ns/p")]


def test_nothing_is_worked_out_again_while_nothing_changes() -> None:
    """Every look at thousands of waiting pods asks this of each of them."""
    found = state(WITH_DATA, pvcs=[BOUND], volumes=[volume("vol", "a")])
    assert found.scheduling_pod(WITH_DATA) is found.scheduling_pod(WITH_DATA)
    again = waiting(volumes=mounting("data"), cpu="2")
    found.pods.on_event(again.key, again)
    assert found.scheduling_pod(again).requests["cpu"] == 2000, "another version of the pod"


def test_a_pod_that_is_gone_is_forgotten() -> None:
    """A pod of the same name has other volumes."""
    found = state(WITH_DATA, pvcs=[BOUND], volumes=[volume("vol", "a")])
    found.scheduling_pod(WITH_DATA)
    found.pods.on_event(WITH_DATA.key, None)
    with found.subscribe([Topic.PENDING]) as news:
        found.storage.pvcs.on_event("ns/data", None)
        assert news.take() == []


def test_a_node_lists_its_limits_and_what_is_attached_sch_074() -> None:
    made = storage_class("fast", provisioner="ebs.csi")
    pvcs = [pvc(name, phase="Pending", storageClassName="fast") for name in ("one", "two", "three")]
    pods = [
        running("a", "n", volumes=mounting("one")),
        running("b", "n", volumes=mounting("one", "two"), meta=LEAVING),
        running("ended", "n", volumes=mounting("three"), status={"phase": "Succeeded"}),
    ]
    found = state(*pods, pvcs=pvcs, classes=[made])
    (bare,) = _nodes(found)
    assert bare.volume_limits == {}, "its drivers have not said anything yet"
    found.csi_nodes.on_event("n", csi_node(ebs=5, efs=None))
    (seen,) = _nodes(found)
    assert [one.attachments for one in seen.pods] == [(("ebs.csi", "ns/one"),)]
    assert seen.volume_limits == {"ebs.csi": 4}, "a pod that is ending still has its second volume attached"


def _nodes(found: ClusterState) -> Any:
    found.nodes.on_event("n", node())
    return scheduling_nodes(found, 0.0)


def test_in_tree_names_mean_their_csi_driver_sch_074() -> None:
    old = storage_class("old", provisioner="kubernetes.io/aws-ebs")
    found = state(pvcs=[pvc(storageClassName="old")], classes=[old])
    assert found.scheduling_pod(WITH_DATA).attachments == (("ebs.csi.aws.com", "ns/data"),)
    disk = volume("vol", csi=None, awsElasticBlockStore={"volumeID": "vol-1"})
    assert state(pvcs=[BOUND], volumes=[disk]).scheduling_pod(WITH_DATA).attachments == (
        ("ebs.csi.aws.com", "ns/data"),
    )


def test_labels_of_namespaces_are_news_and_nothing_else_of_them_is() -> None:
    found = ClusterState(clock=lambda: 0.0)
    with found.subscribe([Topic.NAMESPACE]) as news:
        found.namespaces.on_event("shop", namespace("shop", team="a"))
        assert news.take() == [(Topic.NAMESPACE, "shop")]
        found.namespaces.on_event("shop", namespace("shop", team="a"))
        assert news.take() == []
        found.namespaces.on_event("shop", namespace("shop", team="b"))
        assert news.take() == [(Topic.NAMESPACE, "shop")]
    assert found.namespace_changes == 2


def test_a_pod_without_claims_is_left_as_it_is() -> None:
    record = pod(volumes=[{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c"}}])
    assert state().scheduling_pod(record) is record.pod
