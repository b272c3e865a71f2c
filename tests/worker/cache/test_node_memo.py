"""What is kept of a node from one plan or look to the next is what would be computed without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.disruption.nodes import NodeDetail
from tenon.kube.scheduler_config import scheduler_config
from tenon.kube.selector_decode import decode_service
from tenon.scheduling.model import InstanceType, Node
from tests.tenon.scheduling.builders import CATALOG
from tests.worker.cache.objects import (
    budget,
    claim,
    csi_driver,
    csi_node,
    daemonset,
    mounting,
    node,
    owned_by,
    pvc,
    running,
    storage_class,
    volume,
    waiting,
)
from worker.cache.capacity import scheduling_nodes
from worker.cache.node_details import node_details
from worker.cache.node_memo import NodeMemo
from worker.cache.state import ClusterState

START = 1_800_000_000.0
KIND = CATALOG[0]
SOLD = {
    labels.INSTANCE_TYPE: KIND.name,
    labels.ZONE: KIND.offerings[0].zone,
    labels.CAPACITY_TYPE: KIND.offerings[0].capacity_type,
}
ZONAL = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
SPREAD = scheduler_config({"podTopologySpread": {"defaultConstraints": [ZONAL]}})
SINCE = "2026-01-01T00:00:00Z"
LEAVING = {"deletionTimestamp": SINCE}

Change = Callable[[ClusterState], None]


def of(table: Callable[[ClusterState], Any], key: str, make: Callable[[], Any] | None) -> Change:
    """A change of one object; ``make`` is None for its deletion."""
    return lambda state: table(state).on_event(key, make() if make is not None else None)


def service(selector: dict[str, str]) -> Any:
    body = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": selector}}
    return decode_service(json.dumps(body).encode())


@st.composite
def pod_changes(draw: st.DrawFn) -> Change:
    name = draw(st.sampled_from("abcd"))
    host = draw(st.sampled_from(["n0", "n1", "", "gone"]))
    kind = draw(st.sampled_from(["ReplicaSet", "DaemonSet", "StatefulSet"]))
    protection = draw(st.sampled_from(["", "", "", "true", "2000000h"]))
    meta: dict[str, Any] = {
        **owned_by(kind, "uid-ds" if kind == "DaemonSet" else "owner"),
        "labels": {"app": draw(st.sampled_from(["web", "db"]))},
        "annotations": {labels.DO_NOT_DISRUPT: protection} if protection else {},
        **(LEAVING if draw(st.integers(0, 4)) == 0 else {}),
    }
    phase = draw(st.sampled_from(["Running", "Running", "Succeeded"]))
    volumes = draw(st.sampled_from([[], [], mounting("data")]))
    cpu = draw(st.sampled_from(["1", "2"]))
    if draw(st.integers(0, 3)) == 0:
        return of(lambda state: state.pods, f"ns/{name}", None)
    if not host:
        return of(lambda state: state.pods, f"ns/{name}", lambda: waiting(name, cpu=cpu, meta=meta, volumes=volumes))
    status = {"phase": phase}
    return of(
        lambda state: state.pods,
        f"ns/{name}",
        lambda: running(name, host, cpu=cpu, meta=meta, status=status, volumes=volumes),
    )


@st.composite
def node_changes(draw: st.DrawFn) -> Change:
    name = draw(st.sampled_from(["n0", "n1"]))
    entries = {**SOLD, labels.NODEPOOL: "pool"}
    entries |= {labels.INITIALIZED: "true"} if draw(st.booleans()) else {}
    meta = {"labels": entries, **(LEAVING if draw(st.integers(0, 4)) == 0 else {})}
    taints = draw(st.sampled_from([[], [{"key": "warming", "effect": "NoSchedule"}]]))
    if draw(st.integers(0, 4)) == 0:
        return of(lambda state: state.nodes, name, None)
    return of(lambda state: state.nodes, name, lambda: node(name, meta=meta, taints=taints))


@st.composite
def claim_changes(draw: st.DrawFn) -> Change:
    host = draw(st.sampled_from(["n0", "n1"]))
    planned = ",".join(f"ns/{name}=uid-{name}" for name in sorted(draw(st.sets(st.sampled_from("abcd")))))
    annotations = {labels.PLANNED_PODS: planned} if planned else {}
    annotations |= {labels.DISRUPTED_BY: "command"} if draw(st.booleans()) else {}
    meta: dict[str, Any] = {"labels": {labels.NODEPOOL: "pool", **SOLD}, "annotations": annotations}
    meta |= LEAVING if draw(st.integers(0, 4)) == 0 else {}
    since = draw(st.sampled_from(["", SINCE, "2026-06-01T00:00:00Z"]))
    startup = draw(st.sampled_from([[], [{"key": "warming", "effect": "NoSchedule"}]]))
    drifted = {"type": "Drifted", "status": "True", "reason": draw(st.sampled_from(["A", "B"]))}
    status = {"conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": since}]} if since else {}
    status = {"conditions": [*status.get("conditions", ()), drifted]} if draw(st.booleans()) else status
    joined = draw(st.sampled_from([host, host, ""]))
    if draw(st.integers(0, 4)) == 0:
        return of(lambda state: state.claims, f"c-{host}", None)
    return of(
        lambda state: state.claims,
        f"c-{host}",
        lambda: claim(f"c-{host}", node_name=joined, meta=meta, status=status, startupTaints=startup),
    )


@st.composite
def other_changes(draw: st.DrawFn) -> Change:
    return draw(
        st.sampled_from(
            [
                of(lambda state: state.moving.pdbs, "ns/keep", lambda: budget(maxUnavailable=0)),
                of(lambda state: state.moving.pdbs, "ns/keep", lambda: budget(app="db", disruptions_allowed=0)),
                of(lambda state: state.moving.pdbs, "ns/keep", None),
                of(lambda state: state.storage.pvcs, "ns/data", lambda: pvc(volumeName="vol")),
                of(lambda state: state.storage.pvcs, "ns/data", lambda: pvc(phase="Pending", storageClassName="waits")),
                of(lambda state: state.storage.pvcs, "ns/data", None),
                of(lambda state: state.storage.volumes, "vol", lambda: volume("vol", "us-west-2a")),
                of(lambda state: state.storage.volumes, "vol", lambda: volume("vol", "us-west-2b")),
                of(lambda state: state.storage.classes, "waits", lambda: storage_class("waits", "us-west-2b")),
                of(lambda state: state.csi.nodes, "n0", lambda: csi_node("n0", ebs=5)),
                of(lambda state: state.csi.nodes, "n0", lambda: csi_node("n0", ebs=6)),
                of(lambda state: state.csi.nodes, "n0", None),
                of(lambda state: state.csi.drivers, "ebs.csi", csi_driver),
                of(lambda state: state.csi.drivers, "ebs.csi", lambda: csi_driver(required=False)),
                of(lambda state: state.csi.drivers, "ebs.csi", None),
                of(lambda state: state.daemonsets, "kube-system/ds", daemonset),
                of(lambda state: state.daemonsets, "kube-system/ds", lambda: daemonset(cpu="200m")),
                of(lambda state: state.daemonsets, "kube-system/ds", None),
                of(lambda state: state.spreading.services, "ns/s", lambda: service({"app": "web"})),
                of(lambda state: state.spreading.services, "ns/s", lambda: service({"app": "db"})),
                of(lambda state: state.spreading.services, "ns/s", None),
            ]
        )
    )


def copied(state: ClusterState, now: float) -> ClusterState:
    cluster_state = ClusterState(lambda: now)
    cluster_state.adopt(state)
    return cluster_state


def described(state: ClusterState, now: float, price: float) -> tuple[list[Node], dict[str, NodeDetail]]:
    types: dict[str, list[InstanceType]] = {"pool": priced(price)}
    return scheduling_nodes(state, now), node_details(state, now, types)


def priced(price: float) -> list[InstanceType]:
    return [replace(KIND, offerings=tuple(replace(offering, price=price) for offering in KIND.offerings))]


def settled(clock: Callable[[], float] = lambda: START) -> ClusterState:
    """Two nodes with a pod each, of which one has a volume."""
    state = ClusterState(clock)
    for name, volumes in (("n0", []), ("n1", mounting("data"))):
        state.nodes.on_event(name, node(name, meta={"labels": {**SOLD, labels.INITIALIZED: "true"}}))
        bought = claim(
            f"c-{name}", node_name=name, meta={"labels": {labels.NODEPOOL: "pool", **SOLD}}, initialized=SINCE
        )
        state.claims.on_event(bought.key, bought)
        meta = {**owned_by("ReplicaSet"), "labels": {"app": "web"}}
        pod = running(f"on-{name}", name, meta=meta, volumes=volumes)
        state.pods.on_event(pod.key, pod)
    return state


CHANGES = st.one_of(pod_changes(), node_changes(), claim_changes(), other_changes(), other_changes())


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.lists(CHANGES, max_size=2), st.floats(0, 7200), st.sampled_from([0.1, 0.2])),
        min_size=2,
        max_size=15,
    )
)
def test_a_plan_and_a_pass_see_the_same_as_if_nothing_was_kept(steps: list[tuple[list[Change], float, float]]) -> None:
    """Each step changes some objects, lets time pass and takes a snapshot; an older one may be read after it."""
    clock = [START]
    state = settled(lambda: clock[0])
    state.spreading.defaults = SPREAD
    older = copied(state, START)
    for changes, passed, price in steps:
        for change in changes:
            change(state)
        clock[0] += passed
        snapshot = copied(state, clock[0])
        for item in (snapshot, older, snapshot):
            fresh = copied(item, item.clock())
            fresh.kept_nodes, fresh.kept_details = NodeMemo(), NodeMemo()
            assert described(item, item.clock(), price) == described(fresh, item.clock(), price)
        older = snapshot


def bought_for(pod: str, host: str) -> Change:
    """Makes the node's claim one that was bought for a pod."""
    meta = {"annotations": {labels.PLANNED_PODS: f"ns/{pod}=uid-{pod}"}, "labels": {labels.NODEPOOL: "pool", **SOLD}}
    since = "2027-01-01T00:00:00Z"
    return of(
        lambda state: state.claims,
        f"c-{host}",
        lambda: claim(f"c-{host}", node_name=host, meta=meta, initialized=since),
    )


def leaves(host: str) -> Change:
    leaving = {"labels": {**SOLD, labels.INITIALIZED: "true"}, "finalizers": ["karpenter.sh/termination"], **LEAVING}
    return of(lambda state: state.nodes, host, lambda: node(host, meta=leaving))


def starts(host: str) -> Change:
    """A node that is not initialized: its claim says what it will have."""
    return of(lambda state: state.nodes, host, lambda: node(host, meta={"labels": SOLD}))


def says(host: str, label: str) -> Change:
    meta = {"labels": {labels.NODEPOOL: "pool", **SOLD, "example.com/role": label}}
    return of(lambda state: state.claims, f"c-{host}", lambda: claim(f"c-{host}", node_name=host, meta=meta))


def warm(annotation: str) -> Change:
    """The state of a warm node, which its taint keeps DaemonSet pods away from."""
    meta = {"annotations": {labels.WARM: annotation}, "labels": {labels.NODEPOOL: "pool", **SOLD}}
    return of(lambda state: state.claims, "c-n0", lambda: claim("c-n0", node_name="n0", meta=meta, initialized=SINCE))


def with_warm_taint(state: ClusterState) -> None:
    state.daemonsets.on_event("kube-system/ds", daemonset())
    meta = {"labels": {**SOLD, labels.INITIALIZED: "true"}}
    taints = [{"key": labels.WARM, "effect": "NoSchedule"}]
    state.nodes.on_event("n0", node("n0", meta=meta, taints=taints))
    warm("filling")(state)


def spread_by(app: str) -> Change:
    return of(lambda state: state.spreading.services, "ns/s", lambda: service({"app": app}))


def protected(protection: str) -> Change:
    """A pod that came at the start of the test and must not be disrupted for some time."""
    meta = {"annotations": {labels.DO_NOT_DISRUPT: protection}}
    since = datetime.fromtimestamp(START, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return of(lambda state: state.pods, "ns/p", lambda: running("p", "n0", since=since, meta=meta))


def with_volume(state: ClusterState) -> None:
    state.storage.volumes.on_event("vol", volume("vol", "us-west-2a"))
    state.storage.pvcs.on_event("ns/data", pvc(volumeName="vol"))
    state.csi.nodes.on_event("n1", csi_node("n1", ebs=5))


def nothing(state: ClusterState) -> None:
    """Change nothing."""


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param(nothing, protected("true"), id="a-pod"),
        pytest.param(protected("1h"), nothing, id="the-end-of-a-protection"),
        pytest.param(nothing, leaves("n0"), id="the-Node"),
        pytest.param(nothing, bought_for("x", "n0"), id="the-NodeClaim"),
        pytest.param(starts("n0"), says("n0", "db"), id="the-NodeClaim-of-a-node-that-starts"),
        pytest.param(
            lambda state: [change(state) for change in (leaves("n0"), bought_for("on-n0", "n1"))],
            of(lambda state: state.pods, "ns/on-n0", None),
            id="a-pod-that-is-released-for-the-node",
        ),
        pytest.param(leaves("n0"), bought_for("on-n0", "n1"), id="a-pod-on-its-way-to-the-node"),
        pytest.param(
            nothing, of(lambda state: state.moving.pdbs, "ns/keep", lambda: budget(maxUnavailable=0)), id="a-budget"
        ),
        pytest.param(
            with_volume,
            of(lambda state: state.storage.volumes, "vol", lambda: volume("vol", "us-west-2b")),
            id="a-volume",
        ),
        pytest.param(
            with_volume, of(lambda state: state.csi.nodes, "n1", lambda: csi_node("n1", ebs=6)), id="the-CSINode"
        ),
        pytest.param(with_warm_taint, warm("stopped"), id="the-state-of-a-warm-node"),
        pytest.param(nothing, spread_by("web"), id="a-Service"),
        pytest.param(nothing, of(lambda state: state.daemonsets, "kube-system/ds", daemonset), id="a-DaemonSet"),
    ],
)
def test_a_change_of_what_a_node_is_described_from_is_seen(before: Change, change: Change) -> None:
    """The same as the property test above, for each source by itself."""
    clock = [START]
    state = settled(lambda: clock[0])
    state.spreading.defaults = SPREAD
    before(state)
    first = described(copied(state, clock[0]), clock[0], 0.1)
    described(copied(state, clock[0]), clock[0], 0.1)
    clock[0] += 7200
    change(state)
    snapshot = copied(state, clock[0])
    observations = described(snapshot, clock[0], 0.1)
    snapshot.kept_nodes, snapshot.kept_details = NodeMemo(), NodeMemo()
    assert observations == described(snapshot, clock[0], 0.1)
    assert observations != first, "the change must be one that matters"


def test_only_what_concerns_a_changed_node_is_computed_again() -> None:
    """Otherwise each look at a large cluster at rest would describe all its nodes again."""
    state = settled()
    nodes, details = described(copied(state, START), START, 0.1)
    moved = running("new", "n1", meta=owned_by("ReplicaSet"))
    state.pods.on_event(moved.key, moved)
    nodes_after, details_after = described(copied(state, START), START, 0.1)
    assert [after is before for after, before in zip(nodes_after, nodes, strict=True)] == [True, False]
    assert (details_after["c-n0"] is details["c-n0"], details_after["c-n1"] is details["c-n1"]) == (True, False)


def test_a_heartbeat_changes_nothing() -> None:
    state = settled()
    nodes, _ = described(state, START, 0.1)
    state.nodes.on_event("n0", node("n0", meta={"labels": {**SOLD, labels.INITIALIZED: "true"}}))
    assert described(state, START, 0.1)[0][0] is nodes[0]


def test_nothing_is_kept_of_a_node_that_is_gone() -> None:
    state = settled()
    described(state, START, 0.1)
    state.nodes.on_event("n0", None)
    described(state, START, 0.1)
    assert (len(state.kept_nodes), len(state.kept_details)) == (1, 1)


def test_a_snapshot_does_not_see_later_changes_of_a_nodes_pods() -> None:
    state = settled()
    snapshot = copied(state, START)
    state.pods.on_event("ns/on-n0", None)
    assert ([pod.key for pod in snapshot.pods_on("n0")], state.pods_on("n0")) == (["ns/on-n0"], [])
