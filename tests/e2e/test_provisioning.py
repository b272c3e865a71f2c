"""Pods that fit nowhere get a node, and the node goes when nothing needs it (issue row PRV, LIF, TRM)."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import PODS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.kube.timestamps import parse_instant
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, NAMESPACE, ROOMY, SMALL, condition, leaving
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


async def test_lbl03_lbl04_a_pod_may_select_the_labels_that_a_node_gets_while_it_starts(make_pool: MakePool) -> None:
    for label in (labels.REGISTERED, labels.INITIALIZED):
        pool = await make_pool(requirements=SMALL)
        await pool.pod("selective", nodeSelector={KEY: pool.name, label: "true"})
        await pool.running(1)
        assert len(pool.instances()) == 1


async def test_pending_pods_get_a_node_and_an_empty_node_goes(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox
) -> None:
    """LIF-01..04, AWS-122, EVT-03, MET-06, MET-07: the whole way up and down, as a user can check it."""
    pool = await make_pool(consolidate_after="1s", requirements=ROOMY)
    await pool.deploy(1)
    (first,) = await pool.running(1)  # a claim without an instance has no room for more than its own pods
    await pool.scale(3)
    pods = await pool.running(3)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]

    async def has_only_its_own_taint() -> bool:
        """kube-controller-manager may still be about to take away that of the startup cordon."""
        return [[taint["key"] for taint in node["spec"]["taints"]] for node in await pool.nodes()] == [[KEY]]

    await until(has_only_its_own_taint)
    (node,) = await pool.nodes()
    assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"]}

    (instance,) = pool.instances()
    result = node["metadata"]["labels"]
    expected = {
        labels.NODEPOOL: pool.name,
        labels.REGISTERED: "true",
        labels.INITIALIZED: "true",
        labels.EC2NODECLASS: pool.name,
        labels.CAPACITY_TYPE: instance["capacity_type"],
        labels.ZONE: instance["zone"],
        labels.INSTANCE_TYPE: instance["type"],
        KEY: pool.name,
    }
    assert expected.items() <= result.items()
    assert labels.TERMINATION_FINALIZER in node["metadata"]["finalizers"]
    assert labels.TERMINATION_FINALIZER in claim["metadata"]["finalizers"]
    for kind in ("Launched", "Registered", "Initialized", "Ready"):
        assert condition(claim, kind)["status"] == "True"
    assert claim["status"]["providerID"] == node["spec"]["providerID"]
    assert claim["status"]["providerID"].endswith(instance["id"])
    assert claim["status"]["nodeName"] == node["metadata"]["name"] == instance["private_dns_name"]
    tags = {
        f"kubernetes.io/cluster/{sandbox.cluster_name}": "owned",
        labels.TAG_CLUSTER: sandbox.cluster_name,
        labels.TAG_NODEPOOL: pool.name,
        labels.TAG_NODECLASS: pool.name,
        labels.TAG_NODECLAIM: name,
        "team": "e2e",
    }
    assert tags.items() <= instance["tags"].items()
    assert instance["tags"]["Name"]
    await pool.seen(first["metadata"]["name"], "Nominated", name)
    ready = {"karpenter_sh_nodepool": pool.name, "type": "Ready", "status": "True"}
    of_node = {"node_name": node["metadata"]["name"], "nodepool": pool.name, "zone": instance["zone"]}
    waits = "temporal_activity_schedule_to_start_latency_seconds_count"

    async def measured() -> bool:
        """A scrape may lack a process that answers late, and what the leader's cache knows may be a moment old."""
        exact_counts = [
            worker.metric("karpenter_nodeclaims_created_total", nodepool=pool.name),
            worker.metric("karpenter_nodes_created_total", nodepool=pool.name),
            worker.metric("operator_nodeclaim_status_condition_count", **ready),
        ]
        totals = [
            worker.metric("karpenter_nodes_allocatable", **of_node, resource_type="pods"),
            worker.metric("karpenter_pods_state", node=of_node["node_name"], nodepool=pool.name),
            worker.metric("karpenter_pods_bound_duration_seconds_count", dynamic_resources="false"),
            worker.metric("tenon_plan_phase_duration_seconds_count", phase="write"),
            worker.metric("aws_sdk_go_request_total", service="EC2", action="CreateFleet", code="200"),
            worker.metric("client_go_request_total", code="201", method="POST"),
            worker.metric(waits, process="io"),
            *(worker.metric("temporal_request_total", process=process) for process in ("io", "cluster")),
            *(worker.metric("process_resident_memory_bytes", process=process) for process in ("io", "cluster")),
        ]
        return exact_counts == [1, 1, 1] and all(value > 0 for value in totals)

    await until(measured)

    await pool.scale(0)
    await pool.gone(name)
    assert await pool.nodes() == []
    assert [i["state"] for i in pool.instances()] == ["terminated"]

    async def counted() -> bool:
        """Whether both ends are counted, which is just after the finalizer went."""
        ended = [f"karpenter_{kind}_terminated_total" for kind in ("nodeclaims", "nodes")]
        return [worker.metric(name, nodepool=pool.name) for name in ended] == [1, 1]

    async def logged() -> bool:
        return bool(worker.logged("A node was deleted", nodeclaim=name, reason="Empty"))

    await until(counted)
    await until(logged)


async def test_daemonsets_have_room_on_the_node_that_is_bought(make_pool: MakePool) -> None:
    """SCH: a pod and a DaemonSet's pod that together need more than the smallest type get a larger one."""
    pool = await make_pool()
    await pool.daemon(cpu="1500m")
    await pool.deploy(1, cpu="1500m")
    await pool.running(2)
    (node,) = await pool.nodes()
    assert int(node["status"]["capacity"]["cpu"]) >= 4


async def test_a_do_not_disrupt_node_stays_until_the_annotation_goes(make_pool: MakePool) -> None:
    """DIS: of two nodes that become empty at once, the annotated one stays; without the annotation it goes too."""
    pool = await make_pool(requirements=SMALL, budgets=[{"nodes": "100%"}])
    await pool.deploy(2)
    await pool.running(2)
    survivors, other = await pool.settled(2)
    node = survivors["status"]["nodeName"]
    await pool.annotate_node(node, labels.DO_NOT_DISRUPT, "true")
    await pool.scale(0)
    await pool.gone(other["metadata"]["name"])
    (claim,) = await pool.claims()
    assert claim["metadata"]["name"] == survivors["metadata"]["name"]
    assert not leaving(claim)

    await pool.annotate_node(node, labels.DO_NOT_DISRUPT, None)
    await pool.gone(survivors["metadata"]["name"])


async def test_dis13_a_daemon_pod_with_do_not_disrupt_keeps_its_empty_node(make_pool: MakePool, kube: Kube) -> None:
    """Of two nodes that become empty at once, the one with the annotated pod is not even tainted."""
    pool = await make_pool(requirements=SMALL, budgets=[{"nodes": "100%"}])
    await pool.daemon(cpu="100m")
    await pool.deploy(2)
    await pool.running(4)
    survivors, other = await pool.settled(2)
    (agent,) = [pod for pod in await pool.pods("agent") if pod["spec"]["nodeName"] == survivors["status"]["nodeName"]]

    async def annotate(value: str | None) -> None:
        patch = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: value}}}
        await kube.patch(PODS, agent["metadata"]["name"], patch, namespace=NAMESPACE)

    await annotate("true")
    await pool.scale(0)
    await pool.gone(other["metadata"]["name"])
    (claim,) = await pool.claims()
    assert claim["metadata"]["name"] == survivors["metadata"]["name"]
    assert not leaving(claim)
    (node,) = await pool.nodes()
    assert [taint["key"] for taint in node["spec"]["taints"]] == [KEY]

    await annotate(None)
    await pool.gone(survivors["metadata"]["name"])


async def test_a_pod_event_restarts_the_time_to_live_of_an_empty_node(make_pool: MakePool) -> None:
    """DIS: an empty node that is used again before its time is over does not leave."""
    pool = await make_pool(consolidate_after="30s")
    await pool.pod("first")
    await pool.running(1)
    (claim,) = await pool.settled(1)
    await pool.delete_pod("first")

    async def nobody() -> bool:
        return not await pool.pods()

    await until(nobody)
    second = await pool.pod("second")
    await pool.running(1)
    began = parse_instant(second["metadata"]["creationTimestamp"])
    assert began is not None

    async def counted_from_the_second() -> bool:
        (of_the_first,) = await pool.claims()
        noted = parse_instant(of_the_first["status"].get("lastPodEventTime"))
        return noted is not None and noted >= began

    await until(counted_from_the_second)
    (same,) = await pool.claims()
    assert same["metadata"]["uid"] == claim["metadata"]["uid"]
    assert not leaving(same)
