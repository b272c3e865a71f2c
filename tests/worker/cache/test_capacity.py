"""What nodes and claims have room for, and what pools use."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tenon.apis import labels
from tenon.kube.limit_ranges import decode_limit_range
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.taints import Taint
from tenon.resources import Resources
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node
from tests.tenon.scheduling.builders import pool, problem
from tests.worker.cache.cluster_state import NOW, STATUS, state
from tests.worker.cache.objects import (
    claim,
    daemonset,
    mounting,
    node,
    owned_by,
    pod,
    pvc,
    running,
    volume,
    waiting,
)
from worker.cache.capacity import daemon_pods, scheduling_nodes
from worker.cache.planned_places import planned_places
from worker.cache.state import ClusterState
from worker.cache.usage import pool_usages

INITIALIZED = {"labels": {"karpenter.sh/nodepool": "pool", "karpenter.sh/initialized": "true"}}

STARTED = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
"""Labels that a node gets while it starts. Pods that select them find room on it."""


def only(cluster_state: ClusterState) -> Node:
    (node,) = scheduling_nodes(cluster_state, NOW)
    return node


def test_an_unmanaged_node_counts_as_it_is_sch_090() -> None:
    result = only(
        state(
            nodes=[node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])],
            pods=[running("a", "n"), running("ended", "n", status={"phase": "Succeeded"}), running("b", "other")],
        )
    )
    assert (result.name, result.initialized) == ("n", True)
    assert result.used == {"cpu": 1000, "pods": 1}
    assert result.allocatable == {"cpu": 4000, "pods": 10}
    assert [taint.key for taint in result.taints] == ["node.kubernetes.io/not-ready"]


def test_dis32_a_node_has_the_capacity_that_the_limits_of_its_pool_count() -> None:
    """Otherwise a pool at its limit could not replace a node by one of the same size."""
    larger = replace(node(meta=INITIALIZED), capacity={"cpu": 5000, "pods": 12})
    result = state(nodes=[larger], claims=[claim(status=STATUS)])
    usage = pool_usages(result)["pool"]
    assert {name: usage[name] for name in ("cpu", "pods")} == only(result).limited == {"cpu": 5000, "pods": 12}


def test_a_starting_node_promises_what_its_claim_says_sch_090() -> None:
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        {"key": "warming", "effect": "NoSchedule"},
        {"key": "team", "effect": "NoSchedule", "value": "a"},
    ]
    startup = [{"key": "warming", "effect": "NoSchedule"}]
    claims = [claim(status=STATUS, startupTaints=startup)]
    result = only(state(nodes=[node(taints=taints)], claims=claims))
    assert result.initialized is False
    assert result.taints == (Taint(key="team", effect="NoSchedule", value="a"),)
    assert result.allocatable == {"cpu": 4000, "pods": 10, "nvidia.com/gpu": 1}
    assert result.labels["karpenter.sh/nodepool"] == "pool"
    assert STARTED.items() <= result.labels.items()

    done = only(state(nodes=[replace(node(taints=taints, meta=INITIALIZED), ready=False)], claims=claims))
    assert done.initialized is True
    assert len(done.taints) == 4
    assert done.allocatable == {"cpu": 4000, "pods": 10}


@pytest.mark.parametrize("meta", [{"labels": {"karpenter.sh/nodepool": "pool"}}, INITIALIZED], ids=["issued", "drains"])
def test_n15_169_a_node_that_reboots_counts_as_one_that_comes_back(meta: dict[str, Any]) -> None:
    taints = [
        {"key": "karpenter.sh/rebooting", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "warming", "effect": "NoSchedule"},
        {"key": "team", "effect": "NoSchedule", "value": "a"},
    ]
    startup = [{"key": "warming", "effect": "NoSchedule"}]
    silent = replace(node(taints=taints, meta=meta), ready=False)
    rebooting = {**STATUS, "conditions": [{"type": "Rebooting", "status": "True", "reason": "RebootRequested"}]}
    comes_back = only(state(nodes=[silent], claims=[claim(status=rebooting, startupTaints=startup)]))
    assert comes_back.taints == (Taint(key="team", effect="NoSchedule", value="a"),)
    assert comes_back.initialized is False
    stays_away = only(state(nodes=[silent], claims=[claim(status=STATUS, startupTaints=startup)]))
    assert Taint("karpenter.sh/rebooting", "NoSchedule") in stays_away.taints


@pytest.mark.parametrize(("ready", "closed"), [(True, False), (False, True)])
def test_the_taint_not_ready_counts_only_on_a_node_that_is_not_ready(ready: bool, closed: bool) -> None:
    """kube-controller-manager takes it off a moment after the kubelet reports Ready."""
    taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    result = only(
        state(nodes=[replace(node(taints=taints, meta=INITIALIZED), ready=ready)], claims=[claim(status=STATUS)])
    )
    assert bool(result.taints) == closed


def test_a_claim_without_a_node_counts_with_its_planned_pods_sch_090() -> None:
    wants, other = waiting("wanted"), waiting("other")
    planned = {"annotations": {"tenon.sh/planned-pods": "ns/wanted=uid-wanted,ns/gone=uid-gone,broken"}}
    requirements = [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
    ]
    result = state(
        claims=[claim(status=STATUS, meta=planned, requirements=requirements)],
        pods=[wants, other],
        daemonsets=[daemonset()],
    )
    node = only(result)
    assert (node.name, node.initialized) == ("claim", False)
    assert node.used == {"cpu": 1100, "pods": 2}
    assert node.labels == {"kubernetes.io/arch": "arm64", "karpenter.sh/nodepool": "pool", **STARTED}
    assert node.requirements is not None
    assert node.requirements["topology.kubernetes.io/zone"].values == ("a", "b")
    assert planned_places(result, NOW) == {"uid-wanted": "claim"}


def test_sch001_a_nominated_pod_holds_its_room_until_it_goes_elsewhere() -> None:
    result = state(nodes=[node()], pods=[running("a", "n")])
    used = []
    for nominated in ("n", "other", "n", ""):
        record = waiting("preempts", cpu="2", status={"nominatedNodeName": nominated} if nominated else {})
        result.pods.on_event(record.key, record)
        used.append((only(result).used, [pod.name for pod in only(result).pods]))
    alone, beside = ({"cpu": 1000, "pods": 1}, ["a"]), ({"cpu": 3000, "pods": 2}, ["a", "preempts"])
    assert used == [beside, alone, beside, alone]


def test_a_claim_without_an_instance_promises_what_its_pods_asked_for_sch_005() -> None:
    """A pod that comes in place of one that was evicted finds room there: nothing is bought twice."""
    annotations = {
        "tenon.sh/planned-pods": "ns/a=uid-a,ns/b=uid-b",
        "tenon.sh/planned-requests": '{"cpu":"2","pods":"2"}',
    }
    requests = claim(node_name="", meta={"annotations": annotations}, resources={"requests": {"cpu": "2300m"}})
    pods = [waiting("a"), waiting("b")]
    full = only(state(claims=[requests], pods=pods, daemonsets=[daemonset()]))
    assert (full.closed, full.used, full.allocatable) == (False, full.allocatable, {"cpu": 2000, "pods": 2})
    node = only(state(claims=[requests], pods=pods[:1], daemonsets=[daemonset()]))
    assert node.used == {"cpu": 1000, "pods": 1}
    assert [pod.name for pod in node.pods] == ["a"]


def test_sch090_a_claim_without_instance_or_planned_pods_promises_no_capacity() -> None:
    requests = claim(node_name="", resources={"requests": {"cpu": "2300m", "pods": "3"}})
    node = only(state(claims=[requests], daemonsets=[daemonset()]))
    assert (node.allocatable, node.used) == ({}, {})


@pytest.mark.parametrize(
    ("nodes", "claims"),
    [
        ([node(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})], []),
        ([node()], [claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})]),
        ([], [claim(status=STATUS, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})]),
    ],
)
def test_what_is_leaving_takes_no_pods_sch_091(nodes: list[Any], claims: list[Any]) -> None:
    assert scheduling_nodes(state(nodes=nodes, claims=claims), NOW) == []


@pytest.mark.parametrize("initialized", ["true", ""])
def test_a_node_that_reports_too_much_attracts_few_more_pods(initialized: str) -> None:
    """A kubelet writes the allocatable of its Node, and consolidation moves pods to where there is room."""
    meta = {"labels": {"karpenter.sh/initialized": initialized}}
    bought = claim(status=STATUS, initialized="2026-01-01T00:00:00Z")
    result = only(state(nodes=[node(meta=meta, cpu="1000000")], claims=[bought]))
    assert result.allocatable["cpu"] == 8000
    assert result.capacity["cpu"] == 8000
    assert result.allocatable["pods"] == 10
    assert only(state(nodes=[node(cpu="1000000")])).allocatable["cpu"] == 1_000_000_000, "it has no NodeClaim"


def test_a_node_counts_as_bought_from_when_its_claim_states_what_that_is() -> None:
    """The watches of Nodes and NodeClaims are separate, and a kubelet may label its Node as initialized."""
    early = claim(initialized="2026-01-01T00:00:00Z")
    joined = node(meta={"labels": {"karpenter.sh/initialized": "true"}}, cpu="1000000")
    result = state(nodes=[joined], claims=[early])
    assert only(result).allocatable["cpu"] == 1_000_000_000
    late = claim(status=STATUS, initialized="2026-01-01T00:00:00Z")
    result.claims.on_event(late.key, late)
    assert only(result).allocatable["cpu"] == 8000


def test_sch090_an_initialized_claim_whose_node_vanished_offers_no_capacity() -> None:
    """Nothing comes back there by itself, so pods that seemed to fit would wait for ever. Another node is its own."""
    vanished = claim(status=STATUS, initialized="2026-01-01T00:00:00Z")
    assert scheduling_nodes(state(claims=[vanished]), NOW) == []
    assert [node.name for node in scheduling_nodes(state(nodes=[node()], claims=[vanished]), NOW)] == ["n"]


def test_a_disruption_taint_without_a_command_only_keeps_pods_off_dis_66() -> None:
    """A node that leaves is deleted a moment after its taint."""
    disrupted = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    result = state(nodes=[node(taints=[disrupted])], claims=[claim()], pods=[running("a", "n")])
    assert [taint.key for taint in only(result).taints] == ["karpenter.sh/disrupted"]
    assert result.moving_pods() == []


def test_daemons_that_still_come_are_reserved_never_less_than_none_sch_082() -> None:
    arm = {"kubernetes.io/arch": "arm64"}
    daemonsets = [daemonset("log"), daemonset("arm", nodeSelector=arm), daemonset("cni", hostNetwork=True)]
    owned = owned_by("DaemonSet", "uid-log")

    def used(**options: Any) -> Resources:
        return dict(only(state(daemonsets=daemonsets, **options)).used)

    assert used(nodes=[node()]) == {"cpu": 200, "pods": 2}
    assert used(nodes=[node(meta={"labels": arm})]) == {"cpu": 300, "pods": 3}
    assert used(nodes=[node()], pods=[running("log", "n", cpu="100m", meta=owned)]) == {"cpu": 200, "pods": 2}
    assert used(nodes=[node()], pods=[running("log", "n", cpu="5", meta=owned)]) == {"cpu": 5100, "pods": 2}
    taints = [{"key": "team", "effect": "NoExecute"}]
    assert used(nodes=[node(taints=taints)]) == {}


@pytest.mark.parametrize(("warm", "cpu"), [("filling", 0), ("stopped", 100), ("starting", 100)])
def test_sch082_a_warm_node_keeps_room_for_daemons_that_come_when_it_starts(warm: str, cpu: int) -> None:
    """Plans fill it for that time, so without this room a pod or a DaemonSet pod would have no place there."""
    taints = [
        {"key": labels.WARM, "effect": "NoSchedule"},
        {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "team", "effect": "NoSchedule"},
    ]
    team = [{"key": "team", "operator": "Exists"}]
    result = state(
        nodes=[node(meta=INITIALIZED, taints=taints)],
        claims=[claim(meta={"annotations": {labels.WARM: warm}}, initialized="2026-01-01T00:00:00Z")],
        daemonsets=[daemonset("log", tolerations=team), daemonset("of-other-nodes")],
    )
    assert only(result).used.get("cpu", 0) == cpu
    assert len(only(result).taints) == 5, "they still keep pods away"


def test_daemon_requests_come_from_a_live_pod_sch_081() -> None:
    result = state(
        daemonsets=[daemonset("log", cpu="")],
        pods=[running("log", "n", cpu="250m", meta=owned_by("DaemonSet", "uid-log"))],
    )
    (daemon,) = daemon_pods(result)
    assert daemon.requests == {"cpu": 250, "pods": 1}


OLDER, NEWER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def live_daemon(name: str, cpu: str, created: str, *, deleting: bool = False, **options: Any) -> PodRecord:
    times = {"creationTimestamp": created, **({"deletionTimestamp": NEWER} if deleting else {})}
    return running(name, f"node-of-{name}", cpu=cpu, meta=owned_by("DaemonSet", "uid-ds") | times, **options)


@pytest.mark.parametrize(
    ("live", "cpu"),
    [
        ([live_daemon("a", "100m", OLDER), live_daemon("b", "2", NEWER)], 2000),
        ([live_daemon("a", "2", NEWER), live_daemon("b", "100m", OLDER)], 2000),
        ([live_daemon("a", "100m", NEWER, deleting=True), live_daemon("b", "2", OLDER)], 2000),
        ([live_daemon("a", "100m", NEWER, deleting=True)], 100),
        ([live_daemon("a", "100m", OLDER), live_daemon("b", "2", NEWER, status={"phase": "Failed"})], 100),
    ],
    ids=["the newer is the last", "the newer is the first", "one is deleted", "each is deleted", "the newer has ended"],
)
def test_sch081_daemon_requests_come_from_the_newest_live_pod(live: list[PodRecord], cpu: int) -> None:
    """During a rollout of the DaemonSet, the older ones run what no new node gets."""
    (daemon,) = daemon_pods(state(daemonsets=[daemonset(cpu="")], pods=live))
    assert daemon.requests["cpu"] == cpu


def test_a_daemon_waits_for_labels_that_every_node_gets_sch_081() -> None:
    daemons = [daemonset(nodeSelector={"karpenter.sh/initialized": "true"})]
    assert only(state(nodes=[node()], claims=[claim()], daemonsets=daemons)).used == {"cpu": 100, "pods": 1}
    assert only(state(nodes=[node()], daemonsets=daemons)).used == {}, "nobody labels a node of others"


def test_sch082_a_daemon_above_its_expected_requests_does_not_replace_another() -> None:
    large = running("large", "n", cpu="1", meta=owned_by("DaemonSet", "uid-ds"))
    result = state(nodes=[node()], daemonsets=[daemonset(), daemonset("late")], pods=[large])
    assert only(result).used == {"cpu": 1100, "pods": 2}


def test_host_ports_of_pods_and_coming_daemons_are_taken_sch_075() -> None:
    ports = [{"name": "c", "ports": [{"hostPort": 80}]}]
    result = state(
        nodes=[node()],
        pods=[running("web", "n", containers=ports)],
        daemonsets=[daemonset(containers=[{"name": "c", "ports": [{"hostPort": 9100}]}])],
    )
    assert only(result).host_ports == (("0.0.0.0", 80, "TCP"), ("0.0.0.0", 9100, "TCP"))


def test_pool_usage_counts_nodes_claims_and_their_number_sch_092() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    result = state(
        nodes=[node(), node("alone", meta={"labels": {"karpenter.sh/nodepool": "pool"}}), node("foreign")],
        claims=[
            claim(status=STATUS),
            claim("flying", node_name="x", status=STATUS),
            claim("asked", node_name="", resources={"requests": {"cpu": "2"}}),
            claim("leaving", node_name="y", status=STATUS, meta=leaving),
            claim("other", node_name="z", status=STATUS, meta={"labels": {"karpenter.sh/nodepool": "other"}}),
        ],
    )
    usage = pool_usages(result).get("pool", {})
    assert (usage["nodes"], usage["cpu"], usage["nvidia.com/gpu"]) == (3, 10_000, 2), "a label makes no node a pool's"
    assert pool_usages(result, with_leaving=True).get("pool", {})["nodes"] == 4
    assert pool_usages(result).get("none", {}) == {}


def test_a_claim_without_an_instance_counts_at_most_with_its_largest_type_sch_092() -> None:
    """Limits hold over batches, whatever the claims of an earlier one become; once launched they are what they are."""
    largest = {"annotations": {"tenon.sh/largest-capacity": '{"cpu":"8","memory":"16Gi"}'}}
    requests = {"requests": {"cpu": "2", "pods": "3"}}
    result = state(
        claims=[
            claim("asked", node_name="", resources=requests, meta=largest),
            claim("older", node_name="", resources=requests),
            claim(
                "broken", node_name="", resources=requests, meta={"annotations": {"tenon.sh/largest-capacity": "much"}}
            ),
            claim("launched", node_name="x", status=STATUS, meta=largest),
        ]
    )
    at_most = pool_usages(result, at_most=True).get("pool", {})
    launched = pool_usages(state(claims=[claim("launched", node_name="x", status=STATUS)])).get("pool", {})["cpu"]
    assert (at_most["nodes"], at_most["cpu"], at_most["pods"]) == (4, 8_000 + 2_000 + 2_000 + launched, 9)
    assert at_most["memory"] >= 16 * 2**30
    assert pool_usages(result).get("pool", {})["cpu"] == 3 * 2_000 + launched, "what is shown is what is asked for"


def test_a_claim_that_cannot_be_read_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    bad = claim("bad", node_name="x", status=STATUS, requirements=[{"key": "a", "operator": "Near"}])
    result = state(claims=[bad, claim("good", node_name="y", status=STATUS)], pods=[pod()])
    assert [node.name for node in scheduling_nodes(result, NOW)] == ["good"]
    left_out = [record for record in caplog.records if "is left out of planning" in record.message]
    assert [vars(record)["nodeclaim"] for record in left_out] == ["bad"]


def test_pods_that_rules_between_pods_count_are_listed_with_their_node_sch_052() -> None:
    leaving = node("old", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    pods = [
        running("a", "n"),
        running("ended", "n", status={"phase": "Succeeded"}),
        running("ending", "n", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        running("b", "old"),
    ]
    nodes = {node.name: node for node in scheduling_nodes(state(nodes=[node("n"), leaving], pods=pods), NOW)}
    assert {name: [pod.name for pod in node.pods] for name, node in nodes.items()} == {"n": ["a"], "old": ["b"]}
    assert (nodes["n"].closed, nodes["old"].closed) == (False, True)


def test_sch070_a_terminating_pod_uses_its_claim_of_one_pod_until_it_has_ended() -> None:
    """kube-scheduler places no other pod with that claim before. A pod of a node that leaves gets its place early."""
    names = ("token", "free", "moves")
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    result = state(
        nodes=[node("n"), node("leaving", meta=deleted)],
        pods=[
            running("ending", "n", meta=deleted, volumes=mounting("token")),
            running("ended", "n", meta=deleted, status={"phase": "Failed"}, volumes=mounting("free")),
            running("evicted", "leaving", meta=deleted, volumes=mounting("moves")),
            running("other", "leaving"),
            *(waiting(f"wants-{name}", volumes=mounting(name)) for name in names),
        ],
    )
    for name in names:
        record = pvc(name, volumeName=name, accessModes=["ReadWriteOncePod"])
        result.storage.pvcs.on_event(record.key, record)
        result.storage.volumes.on_event(name, volume(name))

    def waits() -> dict[str, str]:
        pods = [result.scheduling_pod(record) for record in result.pending()]
        plan = solve(problem(pods, pool(), nodes=scheduling_nodes(result, NOW)))
        return {key: str(reason) for key, reason in plan.unschedulable.items()}

    use = "in use by pod ns/ending, which is terminating"
    assert waits() == {"ns/wants-token": f"its volume claim ns/token is ReadWriteOncePod and {use}"}
    result.pods.on_event("ns/ending", None)
    assert waits() == {}


def limit_range(name: str, *items: dict[str, Any], namespace: str = "kube-system") -> ValueRecord[Resources]:
    body = {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {"limits": list(items)}}
    return decode_limit_range(json.dumps(body).encode())


STATED = {"name": "stated", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2", "memory": "1Gi"}}}
SILENT = {"name": "silent"}


def test_daemons_request_what_limit_ranges_make_of_their_template_sch_081() -> None:
    """As admission would: requests, then the container's limits, then what the LimitRange gives."""
    default = {"type": "Container", "default": {"cpu": "3"}, "defaultRequest": {"cpu": "1500m", "memory": "2Gi"}}
    others = [
        {"type": "Pod", "max": {"cpu": "64"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}},
    ]
    result = state(daemonsets=[daemonset(containers=[STATED, SILENT])])
    assert daemon_pods(result)[0].requests == {"cpu": 100, "memory": 2**30, "pods": 1}
    for record in (limit_range("a", *others, default), limit_range("b", default, namespace="elsewhere")):
        result.limit_ranges.on_event(record.key, record)
    assert daemon_pods(result)[0].requests == {"cpu": 1600, "memory": 3 * 2**30, "pods": 1}
    later = limit_range("later", {"type": "Container", "defaultRequest": {"cpu": "9", "ephemeral-storage": "1Gi"}})
    result.limit_ranges.on_event(later.key, later)
    more = {"ephemeral-storage": 2 * 2**30}
    assert daemon_pods(result)[0].requests == {"cpu": 1600, "memory": 3 * 2**30, "pods": 1, **more}


@pytest.mark.parametrize(
    ("item", "cpu"),
    [
        ({"default": {"cpu": "2"}}, 2000),
        ({"max": {"cpu": "4"}}, 4000),
        ({"min": {"cpu": "50m"}}, 50),
        ({"min": {"cpu": "50m"}, "max": {"cpu": "4"}}, 4000),
        ({"min": {"cpu": "50m"}, "max": {"cpu": "4"}, "default": {"cpu": "1"}}, 1000),
        ({}, 0),
    ],
)
def test_a_limit_range_that_leaves_out_requests_gives_limits(item: dict[str, Any], cpu: int) -> None:
    record = limit_range("a", {"type": "Container", **item})
    assert record.value.get("cpu", 0) == cpu


def test_live_daemons_know_better_than_limit_ranges() -> None:
    record = limit_range("a", {"type": "Container", "defaultRequest": {"memory": "2Gi"}})
    live = running("ds-1", "n", meta=owned_by("DaemonSet", "uid-ds"))
    result = state(nodes=[node()], pods=[live], daemonsets=[daemonset()])
    result.limit_ranges.on_event(record.key, record)
    assert "memory" not in daemon_pods(result)[0].requests


def test_sch063_pods_of_daemon_sets_count_on_a_node_that_still_starts() -> None:
    """Otherwise the next plan would buy one more node for a pod that wants a DaemonSet's pod next to it."""
    daemons = [daemonset("log")]
    assert [pod.name for pod in only(state(claims=[claim(status=STATUS)], daemonsets=daemons)).pods] == ["log"]
    starting = state(nodes=[node()], claims=[claim(status=STATUS)], daemonsets=daemons)
    assert [pod.name for pod in only(starting).pods] == ["log"]
    ready = state(nodes=[node(meta=INITIALIZED)], claims=[claim(status=STATUS)], daemonsets=daemons)
    assert only(ready).pods == ()
