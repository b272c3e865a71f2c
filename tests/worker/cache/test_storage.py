"""Pods with volumes: what they ask of a node, why they cannot run yet, and who hears when that changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tenon.kube.pod import LocalDisk
from tenon.kube.records import PodRecord
from tenon.kube.volumes import BIND_COMPLETED, SELECTED_NODE
from tests.worker.cache.objects import (
    claim,
    csi_driver,
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
from worker.cache.csi_drivers import REGISTERS_WITHIN
from worker.cache.state import ClusterState

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
BOUND = pvc(volumeName="vol")
UNBOUND = pvc(phase="Pending", storageClassName="waits")


def state(*records: Any, pvcs: Any = (), volumes: Any = (), classes: Any = ()) -> ClusterState:
    cluster_state = ClusterState(clock=lambda: 0.0)
    for record in records:
        cluster_state.pods.on_event(record.key, record)
    for table, value in (
        (cluster_state.storage.pvcs, pvcs),
        (cluster_state.storage.volumes, volumes),
        (cluster_state.storage.classes, classes),
    ):
        for record in value:
            table.on_event(record.key, record)
    return cluster_state


def asked(cluster_state: ClusterState, record: PodRecord) -> list[str]:
    """The alternatives of where the pod's volumes can be reached."""
    pod = cluster_state.scheduling_pod(record)
    assert pod.unsupported == ""
    return [str(term) for term in pod.volume_terms]


WITH_DATA = waiting(volumes=mounting("data"))


def zone(*names: str) -> str:
    return f"topology.kubernetes.io/zone In [{' '.join(names)}]"


def test_a_bound_claim_holds_its_pod_where_its_volume_is_sch_070() -> None:
    cluster_state = state(pvcs=[BOUND], volumes=[volume("vol", "a", "b")])
    assert asked(cluster_state, WITH_DATA) == [zone("a"), zone("b")]
    assert cluster_state.scheduling_pod(WITH_DATA).attachments == (("ebs.csi.aws.com", "ns/data"),)
    assert asked(state(pvcs=[BOUND], volumes=[volume("vol")]), WITH_DATA) == [], "it can be reached from everywhere"


def test_alternatives_of_several_volumes_are_crossed_sch_070() -> None:
    pair = waiting(volumes=mounting("one", "two"))
    pvcs = [pvc("one", volumeName="v1"), pvc("two", volumeName="v2")]
    cluster_state = state(pvcs=pvcs, volumes=[volume("v1", "a", "b"), volume("v2", "b", "c")])
    assert asked(cluster_state, pair) == [zone("b")]
    cluster_state.storage.volumes.on_event("v2", volume("v2", "c"))
    assert "different zones" in cluster_state.scheduling_pod(pair).unsupported


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
    cluster_state = state(pvcs=[BOUND], volumes=[labeled])
    assert (
        "claim ns/data matches no node, by its node affinity and its zone labels"
        in cluster_state.scheduling_pod(WITH_DATA).unsupported
    )


def test_sch071_a_claim_whose_node_is_selected_holds_its_pod_there() -> None:
    """kube-scheduler refuses every other node until the annotation is removed."""
    selection = pvc(phase="Pending", storageClassName="waits", meta={"annotations": {SELECTED_NODE: "n1"}})
    cluster_state = state(pvcs=[selection], classes=[storage_class("waits")])
    assert asked(cluster_state, WITH_DATA) == ["kubernetes.io/hostname In [n1]"]


def test_sch071_a_selected_node_does_not_count_once_the_volume_is_bound() -> None:
    bound = pvc(volumeName="vol", meta={"annotations": {SELECTED_NODE: "n1", BIND_COMPLETED: "yes"}})
    assert asked(state(pvcs=[bound], volumes=[volume("vol", "a")]), WITH_DATA) == [zone("a")]


def test_sch070_a_claim_of_one_pod_at_a_time_is_known() -> None:
    cluster_state = state(pvcs=[pvc(volumeName="vol", accessModes=["ReadWriteOncePod"])], volumes=[volume("vol")])
    assert cluster_state.scheduling_pod(WITH_DATA).exclusive == ("ns/data",)
    assert state(pvcs=[BOUND], volumes=[volume("vol")]).scheduling_pod(WITH_DATA).exclusive == ()


@pytest.mark.parametrize("source", ["local", "hostPath"])
def test_a_disk_of_a_machine_does_not_tie_its_pod_to_that_machine_sch_070(source: str) -> None:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"]}
    place = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host, place]}]}}
    disk = volume("vol", nodeAffinity=affinity, **{source: {"path": "/disk"}, "csi": None})
    cluster_state = state(pvcs=[BOUND], volumes=[disk])
    assert asked(cluster_state, WITH_DATA) == [zone("a")]
    assert cluster_state.scheduling_pod(WITH_DATA).local_disks == (LocalDisk("vol", "ns/data", frozenset({"gone"})),)


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
    cluster_state = state(pvcs=[BOUND], volumes=[volume("vol", nodeAffinity=affinity, **source)])
    assert cluster_state.scheduling_pod(WITH_DATA).local_disks == ()


def test_a_claim_that_waits_for_its_pod_is_made_where_its_class_allows_sch_071() -> None:
    cluster_state = state(pvcs=[UNBOUND], classes=[storage_class("waits", "a", "b")])
    assert asked(cluster_state, WITH_DATA) == [zone("a", "b")]
    assert asked(state(pvcs=[UNBOUND], classes=[storage_class("waits")]), WITH_DATA) == []


def test_the_newest_default_class_speaks_for_claims_without_one_sch_071() -> None:
    cluster_state = state(pvcs=[pvc(phase="Pending")], classes=[default_class("old", "a")])
    assert asked(cluster_state, WITH_DATA) == [zone("a")]
    cluster_state.storage.classes.on_event("new", default_class("new", "b", created="2026-01-02T00:00:00Z"))
    assert asked(cluster_state, WITH_DATA) == [zone("b")]
    cluster_state.storage.classes.on_event("new", None)
    assert asked(cluster_state, WITH_DATA) == [zone("a")]


def test_an_ephemeral_volume_uses_its_template_until_its_claim_is_made_sch_073() -> None:
    record = waiting(volumes=ephemeral(storageClassName="waits"))
    cluster_state = state(classes=[storage_class("waits", "a", "b")], volumes=[volume("vol", "b")])
    assert asked(cluster_state, record) == [zone("a", "b")]
    output = pvc("p-tmp", volumeName="vol")
    cluster_state.storage.pvcs.on_event(output.key, output)
    assert asked(cluster_state, record) == [zone("b")]


RECREATED = running("p", "n1", volumes=ephemeral(storageClassName="waits"))
ITS_CLAIM = pvc(
    "p-tmp",
    volumeName="vol",
    storageClassName="waits",
    meta={"annotations": {SELECTED_NODE: "n1", BIND_COMPLETED: "yes"}},
)


def test_an_ephemeral_volume_does_not_hold_an_evicted_pod_sch_073() -> None:
    """Its claim goes with the pod, and the pod that replaces it gets a volume where its node is."""
    cluster_state = state(
        RECREATED, pvcs=[ITS_CLAIM], volumes=[volume("vol", "a")], classes=[storage_class("waits", "a", "b")]
    )
    assert asked(cluster_state, RECREATED) == [zone("a")], "while it runs it is where its volume is"
    for moved in (cluster_state.recreated_pod(RECREATED), cluster_state.planned_pod(RECREATED)):
        assert ([str(term) for term in moved.volume_terms], moved.unsupported) == ([zone("a", "b")], "")
        assert moved.attachments == (("ebs.csi.aws.com", "ns/p-tmp"),), "it attaches as many volumes as before"


def test_an_ephemeral_volume_on_a_disk_does_not_hold_an_evicted_pod_sch_073() -> None:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
    disk = volume("vol", nodeAffinity=affinity, local={"path": "/disk"}, csi=None)
    cluster_state = state(RECREATED, pvcs=[ITS_CLAIM], volumes=[disk], classes=[storage_class("waits")])
    assert cluster_state.scheduling_pod(RECREATED).local_disks
    assert cluster_state.recreated_pod(RECREATED).local_disks == ()


def test_an_ephemeral_volume_that_binds_at_once_is_no_obstacle_sch_073() -> None:
    at_once = storage_class("waits", volumeBindingMode="Immediate")
    cluster_state = state(RECREATED, pvcs=[ITS_CLAIM], volumes=[volume("vol", "a")], classes=[at_once])
    moved = cluster_state.recreated_pod(RECREATED)
    assert (moved.volume_terms, moved.unsupported) == ((), "")
    cluster_state.storage.classes.on_event("waits", storage_class("waits", "b", volumeBindingMode="Immediate"))
    assert [str(term) for term in cluster_state.recreated_pod(RECREATED).volume_terms] == [zone("b")]
    cluster_state.storage.classes.on_event("waits", None)
    assert "of the unknown StorageClass waits" in cluster_state.recreated_pod(RECREATED).unsupported


def test_waiting_pods_and_other_volumes_keep_their_claims_sch_073() -> None:
    waits = waiting(volumes=ephemeral(storageClassName="waits"))
    moves = running("moves", "n1", volumes=mounting("data"))
    classes = [storage_class("waits", "a", "b")]
    cluster_state = state(waits, moves, pvcs=[ITS_CLAIM, BOUND], volumes=[volume("vol", "a")], classes=classes)
    for record in (waits, moves):
        for moved in (cluster_state.recreated_pod(record), cluster_state.planned_pod(record)):
            assert [str(term) for term in moved.volume_terms] == [zone("a")], record.key


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
    pod = state(**tables).scheduling_pod(WITH_DATA)
    assert words in pod.unsupported
    assert pod.volume_terms == ()


def test_a_pods_own_mistakes_are_reported_first() -> None:
    record = waiting(volumes=mounting("data"), resourceClaims=[{"name": "gpu"}])
    assert "dynamic resource claims" in state().scheduling_pod(record).unsupported


def test_a_waiting_pod_is_news_when_its_volumes_change_and_only_then() -> None:
    other = waiting("other", volumes=mounting("elsewhere"))
    present_items = running("there", "n", volumes=mounting("data"))
    cluster_state = state(WITH_DATA, other, present_items, waiting("plain"))
    for record in (WITH_DATA, other, present_items):
        cluster_state.scheduling_pod(record)
    with cluster_state.subscribe([Topic.PENDING]) as news:
        for table, record in (
            (cluster_state.storage.pvcs, UNBOUND),
            (cluster_state.storage.classes, storage_class("waits", "a")),
            (cluster_state.storage.pvcs, BOUND),
            (cluster_state.storage.volumes, volume("vol", "a")),
        ):
            before = cluster_state.scheduling_pod(WITH_DATA)
            table.on_event(record.key, record)
            assert news.take() == [(Topic.PENDING, "ns/p")], record
            assert cluster_state.scheduling_pod(WITH_DATA) != before
        cluster_state.storage.classes.on_event("waits", None)
        cluster_state.storage.volumes.on_event("unknown", volume("unknown"))
        assert news.take() == [], "it is bound: its class no longer matters"
        cluster_state.storage.pvcs.on_event("ns/data", None)
        assert news.take() == [(Topic.PENDING, "ns/p")]


def test_nothing_is_worked_out_again_while_nothing_changes() -> None:
    """Every look at thousands of waiting pods asks this of each of them."""
    cluster_state = state(WITH_DATA, pvcs=[BOUND], volumes=[volume("vol", "a")])
    assert cluster_state.scheduling_pod(WITH_DATA) is cluster_state.scheduling_pod(WITH_DATA)
    again = waiting(volumes=mounting("data"), cpu="2")
    cluster_state.pods.on_event(again.key, again)
    assert cluster_state.scheduling_pod(again).requests["cpu"] == 2000, "another version of the pod"


def test_a_pod_with_an_ephemeral_volume_is_resolved_twice_and_no_more() -> None:
    cluster_state = state(
        RECREATED, pvcs=[ITS_CLAIM], volumes=[volume("vol", "a")], classes=[storage_class("waits", "a", "b")]
    )
    present, moved = cluster_state.scheduling_pod(RECREATED), cluster_state.recreated_pod(RECREATED)
    assert cluster_state.scheduling_pod(RECREATED) is present
    assert cluster_state.recreated_pod(RECREATED) is moved
    cluster_state.storage.classes.on_event("waits", storage_class("waits", "c"))
    assert [str(term) for term in cluster_state.recreated_pod(RECREATED).volume_terms] == [zone("c")]


def test_a_pod_that_is_gone_is_forgotten() -> None:
    """A pod of the same name has other volumes."""
    cluster_state = state(WITH_DATA, pvcs=[BOUND], volumes=[volume("vol", "a")])
    cluster_state.scheduling_pod(WITH_DATA)
    cluster_state.pods.on_event(WITH_DATA.key, None)
    with cluster_state.subscribe([Topic.PENDING]) as news:
        cluster_state.storage.pvcs.on_event("ns/data", None)
        assert news.take() == []


def test_a_node_lists_its_limits_and_what_is_attached_sch_074() -> None:
    output = storage_class("fast", provisioner="ebs.csi")
    pvcs = [pvc(name, phase="Pending", storageClassName="fast") for name in ("one", "two", "three")]
    pods = [
        running("a", "n", volumes=mounting("one")),
        running("b", "n", volumes=mounting("one", "two"), meta=LEAVING),
        running("ended", "n", volumes=mounting("three"), status={"phase": "Succeeded"}),
    ]
    cluster_state = state(*pods, pvcs=pvcs, classes=[output])
    (bare,) = _nodes(cluster_state)
    assert bare.volume_limits == {}, "its drivers have not said anything yet"
    cluster_state.csi.nodes.on_event("n", csi_node(ebs=5, efs=None))
    (node,) = _nodes(cluster_state)
    assert [pod.attachments for pod in node.pods] == [(("ebs.csi", "ns/one"),)]
    assert node.volume_limits == {"ebs.csi": 4}, "a pod that is ending still has its second volume attached"


def _nodes(cluster_state: ClusterState, now: float = 0.0) -> Any:
    cluster_state.nodes.on_event("n", node())
    return scheduling_nodes(cluster_state, now)


def limits_of(cluster_state: ClusterState, now: float) -> Mapping[str, int]:
    (present_node,) = _nodes(cluster_state, now)
    limits: Mapping[str, int] = present_node.volume_limits
    return limits


def test_a_node_without_a_driver_that_kube_scheduler_requires_can_attach_no_volume_of_it() -> None:
    """Kubernetes 1.37 refuses it, so a pod that is planned there would wait for ever."""
    cluster_state, later = state(), node().created + REGISTERS_WITHIN
    cluster_state.csi.drivers.on_event("ebs.csi", csi_driver())
    assert limits_of(cluster_state, later) == {"ebs.csi": 0}, "it has no CSINode"
    cluster_state.csi.nodes.on_event("n", csi_node(efs=None))
    assert limits_of(cluster_state, later) == {"ebs.csi": 0}, "its CSINode lacks the driver"
    cluster_state.csi.nodes.on_event("n", csi_node(ebs=None))
    assert limits_of(cluster_state, later) == {}, "a driver without a limit is unlimited"
    cluster_state.csi.nodes.on_event("n", csi_node(ebs=5))
    assert limits_of(cluster_state, later) == {"ebs.csi": 5}


@pytest.mark.parametrize("driver", [None, csi_driver(required=False)], ids=["no-CSIDriver", "not-required"])
def test_a_driver_that_kube_scheduler_does_not_require_may_be_missing(driver: Any) -> None:
    cluster_state = state()
    cluster_state.csi.drivers.on_event("ebs.csi", csi_driver())
    cluster_state.csi.drivers.on_event("ebs.csi", driver)
    assert limits_of(cluster_state, node().created + REGISTERS_WITHIN) == {}


def test_a_node_that_became_ready_a_moment_ago_is_about_to_get_its_drivers() -> None:
    """Their DaemonSets start after the node is ready. A pod must not buy a second node meanwhile."""
    cluster_state = state()
    cluster_state.csi.drivers.on_event("ebs.csi", csi_driver())
    assert limits_of(cluster_state, node().created + REGISTERS_WITHIN - 1) == {}


def test_a_node_that_starts_is_about_to_get_its_drivers() -> None:
    cluster_state = state()
    cluster_state.csi.drivers.on_event("ebs.csi", csi_driver())
    cluster_state.claims.on_event("n", claim("n", node_name="n"))
    (starting,) = _nodes(cluster_state, node().created + 3600)
    assert starting.volume_limits == {}


def test_in_tree_names_mean_their_csi_driver_sch_074() -> None:
    old = storage_class("old", provisioner="kubernetes.io/aws-ebs")
    cluster_state = state(pvcs=[pvc(storageClassName="old")], classes=[old])
    assert cluster_state.scheduling_pod(WITH_DATA).attachments == (("ebs.csi.aws.com", "ns/data"),)
    disk = volume("vol", csi=None, awsElasticBlockStore={"volumeID": "vol-1"})
    assert state(pvcs=[BOUND], volumes=[disk]).scheduling_pod(WITH_DATA).attachments == (
        ("ebs.csi.aws.com", "ns/data"),
    )


def test_labels_of_namespaces_are_news_and_nothing_else_of_them_is() -> None:
    cluster_state = ClusterState(clock=lambda: 0.0)
    with cluster_state.subscribe([Topic.NAMESPACE]) as news:
        cluster_state.namespaces.on_event("shop", namespace("shop", team="a"))
        assert news.take() == [(Topic.NAMESPACE, "shop")]
        cluster_state.namespaces.on_event("shop", namespace("shop", team="a"))
        assert news.take() == []
        cluster_state.namespaces.on_event("shop", namespace("shop", team="b"))
        assert news.take() == [(Topic.NAMESPACE, "shop")]
    assert cluster_state.namespace_changes == 2


def test_a_pod_without_claims_is_left_as_it_is() -> None:
    record = pod(volumes=[{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c"}}])
    assert state().scheduling_pod(record) is record.pod
