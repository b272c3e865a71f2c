"""Registration patches, initialization verdicts, and which pods may be bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.planned_pods import PlannedPod, format_planned_pods, parse_planned
from tenon.kube.pod import Pod
from tenon.kube.pod_decode import pod_of
from tenon.kube.requests import effective_requests
from tenon.kube.scheduler_config import scheduler_config
from tenon.kube.structs import PodSpec, read
from tenon.node import binding
from tenon.node.binding import choose
from tenon.node.cordon import cordoned, uncordoned
from tenon.node.initialization import initialization
from tenon.node.registration import registration

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
TAINTS = [
    UNREGISTERED,
    {"key": "a", "effect": "NoSchedule", "value": "1"},
    {"key": "a", "effect": "NoExecute"},
    {"key": "b", "effect": "PreferNoSchedule", "timeAdded": "2026-03-01T12:00:00Z"},
]


def claim(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c", "uid": "u", "labels": {"team": "a"}, "annotations": {}}, "spec": spec}


def node(taints: list[dict[str, str]] | None = None, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": dict(labels)},
        "spec": {"taints": taints or [], "providerID": "p"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "4"},
        },
    }


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


TAINT_LISTS = st.lists(st.sampled_from(TAINTS), unique_by=lambda taint: (taint["key"], taint["effect"]))


@given(TAINT_LISTS, TAINT_LISTS, TAINT_LISTS, st.booleans())
def test_registration_settles_in_one_patch(
    present: list[dict[str, str]], own: list[dict[str, str]], startup: list[dict[str, str]], alone: bool
) -> None:
    """LIF-03, LBL-05: the patched Node needs nothing more; do-not-sync-taints leaves all but one taint alone."""
    body = node(present, **({"karpenter.sh/do-not-sync-taints": "true"} if alone else {}))
    target = claim(taints=own, startupTaints=startup)
    answer = registration(target, body)
    after = merge(body, answer.patch)
    assert registration(target, after).patch == {}
    assert after["metadata"]["labels"]["karpenter.sh/registered"] == "true"
    keys = {(taint["key"], taint["effect"]) for taint in after["spec"]["taints"]}
    expected = {(taint["key"], taint["effect"]) for taint in present + ([] if alone else own + startup)}
    assert keys == expected - {("karpenter.sh/unregistered", "NoExecute")}
    taints = [taint for taint in present if taint != UNREGISTERED]
    assert after["spec"]["taints"][: len(taints)] == taints, "taints that are there keep every field"
    assert answer.unregistered_taint_missing is (UNREGISTERED not in present)


@given(TAINT_LISTS, st.booleans())
def test_a_cordon_can_be_undone(present: list[dict[str, str]], deleting: bool) -> None:
    body = node(present)
    body["metadata"]["finalizers"] = ["karpenter.sh/termination"]
    if deleting:
        body["metadata"] |= {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": ["example.com/x"]}
    marked = merge(body, cordoned(body))
    assert DISRUPTED in marked["spec"]["taints"]
    assert marked["metadata"]["finalizers"] == body["metadata"]["finalizers"]
    assert cordoned(marked) == {}
    if deleting:
        assert uncordoned(marked) == {}, "evicted pods must not come back to a node that is leaving"
    else:
        assert merge(marked, uncordoned(marked)) == body
    assert uncordoned(body) == {}


@pytest.mark.parametrize(
    ("change", "spec", "reason"),
    [
        ({}, {}, ""),
        ({"status": {"conditions": []}}, {}, "NodeNotReady"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, {}, "NodeNotReady"),
        (
            {"spec": {"taints": [TAINTS[1]]}},
            {"startupTaints": [{"key": "a", "effect": "NoSchedule"}]},
            "StartupTaintsExist",
        ),
        ({"spec": {"taints": [TAINTS[1]]}}, {"startupTaints": [{"key": "a", "effect": "NoExecute"}]}, ""),
        ({"spec": {"taints": [TAINTS[1]]}}, {"taints": [TAINTS[1]]}, ""),
        (
            {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}},
            {},
            "KnownEphemeralTaintsExist",
        ),
        (
            {"spec": {"taints": [{"key": "readiness.k8s.io/net", "effect": "NoSchedule"}]}},
            {},
            "KnownEphemeralTaintsExist",
        ),
        ({}, {"resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}}, "ResourceNotRegistered"),
        (
            {"status": {"allocatable": {"nvidia.com/gpu": "0"}}},
            {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
            "ResourceNotRegistered",
        ),
        (
            {"status": {"allocatable": {"nvidia.com/gpu": "1"}}},
            {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
            "",
        ),
        ({}, {"resources": {"requests": {"nvidia.com/gpu": "0"}}}, ""),
    ],
)
def test_initialization_waits_for_each_sign(change: dict[str, Any], spec: dict[str, Any], reason: str) -> None:
    """LIF-04, TNT-03, TNT-04."""
    verdict = initialization(claim(**spec), merge(node(), change))
    assert (verdict.initialized, verdict.reason) == (reason == "", reason)
    assert bool(verdict.message) is bool(reason)


@pytest.mark.parametrize(
    ("change", "spec", "message"),
    [
        (
            {
                "status": {
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "False",
                            "lastTransitionTime": "2026-03-01T12:00:00Z",
                            "reason": "KubeletNotReady",
                            "message": "cni plugin not initialized",
                        }
                    ]
                }
            },
            {},
            "Node n is not Ready since 2026-03-01 12:00:00 UTC: cni plugin not initialized",
        ),
        ({"status": {"conditions": []}}, {}, "Node n is not Ready: its kubelet has not reported yet"),
        (
            {"spec": {"taints": [TAINTS[1], {"key": "b", "effect": "NoExecute"}]}},
            {"startupTaints": [{"key": "a", "effect": "NoSchedule"}]},
            "Node n still has startup taints: a:NoSchedule; the agent that they wait for must remove them",
        ),
        (
            {"spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]}},
            {},
            "Node n still has taints: node.cloudprovider.kubernetes.io/uninitialized:NoSchedule, "
            "which the cloud controller manager removes",
        ),
        (
            {"status": {"allocatable": {"nvidia.com/gpu": "0"}}},
            {"resources": {"requests": {"nvidia.com/gpu": "2", "example.com/nic": "1", "cpu": "1"}}},
            "Node n does not publish as allocatable yet: example.com/nic (asked 1, allocatable none), "
            "nvidia.com/gpu (asked 2, allocatable 0); check the device plugin",
        ),
    ],
)
def test_what_keeps_a_node_from_being_initialized_is_named(
    change: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    """LIF-04, QRK-10: nothing else tells a person why a registered node takes no pods."""
    assert initialization(claim(**spec), merge(node(), change)).message == message


NAME = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=20)
PLANNED = st.builds(Pod, NAME, NAME, NAME, st.just({}))


@given(st.lists(PLANNED, unique_by=lambda pod: pod.key))
def test_planned_pods_read_back_as_the_plan_wrote_them(planned: list[Pod]) -> None:
    read = parse_planned(format_planned_pods(tuple(planned)))
    assert {(pod.namespace, pod.name, pod.uid) for pod in read} == {
        (pod.namespace, pod.name, pod.uid) for pod in planned
    }
    assert len(read) == len(planned)


@given(st.text(max_size=60))
def test_a_mangled_annotation_never_raises(text: str) -> None:
    for pod in parse_planned(text):
        assert pod.namespace
        assert pod.name
        assert pod.uid


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}},
        "spec": {"containers": containers, **spec},
        "status": {"phase": "Pending"},
    }


def judge(*planned: dict[str, Any], on: list[dict[str, Any]] | None = None, at: dict[str, Any] | None = None) -> Any:
    entries = [PlannedPod("default", item["metadata"]["name"], item["metadata"]["uid"]) for item in planned]
    records = {f"default/{item['metadata']['name']}": pod_of(item) for item in planned}
    return choose(entries, records, at or node(zone="a"), [pod_of(item) for item in on or []])


def test_sch062_a_pod_that_may_have_a_hard_default_spread_is_left_to_the_scheduler() -> None:
    """Which Services choose the pod is not known where pods are bound."""
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    for action, remainder in (("DoNotSchedule", True), ("ScheduleAnyway", False)):
        constraints = [{**constraint, "whenUnsatisfiable": action}]
        spread = scheduler_config({"podTopologySpread": {"defaultConstraints": constraints}})
        assert bool(binding.refusal(pod_of(pod()), node(zone="a"), spread)) is remainder
    own = pod(topologySpreadConstraints=[{**constraint, "whenUnsatisfiable": "ScheduleAnyway"}])
    hard = scheduler_config({"podTopologySpread": {"defaultConstraints": [constraint]}})
    assert not binding.refusal(pod_of(own), node(zone="a"), hard)


def anti(selector: dict[str, Any], **fields: Any) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector}, **fields}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def in_zone(*zones: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
LOCAL_PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}]}]
UDP_PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]}]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, ""),
        ({"schedulerName": "default-scheduler"}, ""),
        ({"schedulerName": "volcano"}, "scheduler volcano"),
        ({"schedulingGates": [{"name": "quota"}]}, "gates"),
        ({"schedulingGroup": {"podGroupName": "training"}}, "PodGroup"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volumes"),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, "volumes"),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, ""),
        ({"affinity": anti({"app": "web"})}, "anti-affinity"),
        ({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, "affinity"),
        ({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "spread"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"nodeSelector": {"zone": "a"}}, ""),
        ({"nodeSelector": {"zone": "b"}}, "node selector"),
        ({"affinity": in_zone("a", "b")}, ""),
        ({"affinity": in_zone("b")}, "affinity"),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2001m"}}}]}, "cpu 2001m asked, 2 free"),
        ({"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}, "nvidia.com/gpu"),
    ],
)
def test_a_pod_is_bound_only_when_no_rule_needs_the_scheduler(spec: dict[str, Any], why: str) -> None:
    choice = judge(pod(**spec))
    assert [item.pod.name for item in choice.bind] == ([] if why else ["web"])
    assert why in choice.other_pods.get("default/web", "")


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        ({"spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}, False),
        ({"spec": {"taints": [{"key": "t", "effect": "NoExecute"}]}}, False),
        ({"spec": {"taints": [{"key": "t", "effect": "PreferNoSchedule"}]}}, True),
        ({"spec": {"taints": [{"key": "ok", "value": "1", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"unschedulable": True}}, False),
        ({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, False),
    ],
)
def test_a_node_that_refuses_gets_no_pod(change: dict[str, Any], bound: bool) -> None:
    tolerant = pod(tolerations=[{"key": "ok", "operator": "Equal", "value": "1"}])
    assert bool(judge(tolerant, at=merge(node(), change)).bind) is bound


def test_a_nomination_elsewhere_is_respected() -> None:
    nominated = pod()
    nominated["status"]["nominatedNodeName"] = "other"
    assert "other" in judge(nominated).other_pods["default/web"]
    nominated["status"]["nominatedNodeName"] = "n"
    assert judge(nominated).bind


@pytest.mark.parametrize(
    ("mine", "theirs", "bound"),
    [(PORT, PORT, False), (PORT, LOCAL_PORT, False), (LOCAL_PORT, PORT, False), (PORT, UDP_PORT, True)],
)
def test_host_ports_are_not_shared(mine: list[Any], theirs: list[Any], bound: bool) -> None:
    assert bool(judge(pod(containers=mine), on=[pod("other", containers=theirs)]).bind) is bound
    pair = judge(pod("one", containers=mine), pod("two", containers=theirs))
    assert len(pair.bind) == 1 + bound, "nor by two planned pods"


@pytest.mark.parametrize(
    ("affinity", "bound"),
    [
        (anti({"app": "web"}), False),
        (anti({"app": "db"}), True),
        (anti({"app": "web"}, namespaces=["prod"]), True),
        (anti({"app": "web"}, namespaces=["prod", "default"]), False),
        (anti({"app": "web"}, namespaceSelector={}), False),
    ],
)
def test_anti_affinity_of_pods_on_the_node_is_kept(affinity: dict[str, Any], bound: bool) -> None:
    assert bool(judge(pod(), on=[pod("other", affinity=affinity)]).bind) is bound


def test_pods_that_are_gone_or_placed_are_settled() -> None:
    """A new pod under a planned name was not planned: its UID differs."""
    place, away, leaving, done = pod("here"), pod("away"), pod("leaving"), pod("done")
    place["spec"]["nodeName"], away["spec"]["nodeName"] = "n", "other"
    leaving["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    done["status"]["phase"] = "Succeeded"
    records = {f"default/{item['metadata']['name']}": pod_of(item) for item in (place, away, leaving, done, pod("new"))}
    entries = [PlannedPod("default", name, name) for name in ("here", "away", "leaving", "done", "missing")]
    choice = choose([*entries, PlannedPod("default", "new", "older")], records, node(), [])
    assert choice.bind == ()
    assert choice.bound_here == ("default/here",)
    assert len(choice.settled) == 5
    assert choice.other_pods == {}


@given(
    st.lists(st.integers(1, 900), max_size=8),
    st.lists(st.tuples(st.integers(1, 900), st.booleans()), max_size=6),
)
def test_bound_pods_never_overfill_a_node(requests: list[int], running: list[tuple[int, bool]]) -> None:
    def sized(name: str, cpu: int) -> dict[str, Any]:
        return pod(name, containers=[{"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}])

    company = []
    for number, (cpu, ended) in enumerate(running):
        other = sized(f"there-{number}", cpu)
        other["status"]["phase"] = "Succeeded" if ended else "Running"
        company.append(other)
    planned = [sized(f"p{number}", cpu) for number, cpu in enumerate(requests)]
    choice = judge(*planned, on=company)
    used = sum(cpu for cpu, ended in running if not ended)
    count = sum(not ended for _, ended in running)
    bound = sum(item.pod.requests["cpu"] for item in choice.bind)
    if choice.bind:
        assert used + bound <= 2000
        assert count + len(choice.bind) <= 4
    assert len(choice.bind) + len(choice.other_pods) == len(planned)


def test_effective_requests_follow_init_containers_sidecars_overhead_and_pod_level() -> None:
    def container(cpu: str, **fields: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "initContainers": [
            container("100m", restartPolicy="Always"),
            container("3"),
            container("200m", restartPolicy="Always"),
        ],
        "containers": [container("1"), container("500m")],
        "overhead": {"cpu": "10m"},
    }
    assert effective_requests(read(spec, PodSpec)) == {"cpu": 3110, "pods": 1}
    spec["initContainers"] = [container("100m", restartPolicy="Always"), container("1")]
    assert effective_requests(read(spec, PodSpec)) == {"cpu": 1610, "pods": 1}
    spec["resources"] = {"requests": {"cpu": "2"}}
    assert effective_requests(read(spec, PodSpec)) == {"cpu": 2010, "pods": 1}
