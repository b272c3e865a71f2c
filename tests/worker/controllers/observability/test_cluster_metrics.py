"""The gauges of nodes and pods that the leader computes at a scrape (MET-15 to MET-17, MET-22)."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from activities.metrics import CONDITION_COUNT
from tenon.apis import labels
from tenon.kube.decode import decode_object
from tests.declared_metrics import series
from tests.tenon.apis.case import NODEPOOL
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, container, node, owned_by, running, waiting
from tests.worker.fake_temporal import Cache
from tests.workflows.waiting import until
from worker.controllers.observability import conditions as conditions_module
from worker.controllers.observability.cluster_metrics import ClusterMetrics
from worker.controllers.observability.node_gauges import LABEL_NAMES
from worker.runtime.health import serve_metrics

NODE_LABELS = {
    labels.NODEPOOL: "default",
    labels.ZONE: "us-west-2a",
    labels.ARCH: "arm64",
    labels.CAPACITY_TYPE: "spot",
    labels.INSTANCE_TYPE: "m7g.large",
    f"{labels.AWS_GROUP}/instance-family": "m7g",
}
CREATED = 1767225600.0
"""When the objects of these tests were created."""
Samples = dict[str, list[tuple[dict[str, str], float]]]


def cluster() -> Cache:
    """A node of a NodeClaim with a pod and a DaemonSet's pod, a node of somebody else, and a pod that waits."""
    cache = Cache()
    cache.clock = lambda: CREATED + 90
    cache.nodes.on_event("n", node(meta={"labels": NODE_LABELS}))
    cache.nodes.on_event("other", node("other"))
    cache.claims.on_event(
        "claim", claim(meta={"labels": {labels.NODEPOOL: "default"}}, status={"providerID": "aws:///us-west-2a/i-n"})
    )
    limits = container("1500m", resources={"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}
    own = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
        ]
    }
    for record in (
        running("web", "n", containers=[limits], meta=own, status={"conditions": [ready]}),
        running("log", "n", cpu="250m", meta=owned_by("DaemonSet")),
        running("ended", "n", status={"phase": "Succeeded"}),
        waiting("waits"),
    ):
        cache.pods.on_event(record.key, record)
    return cache


def samples(text: str) -> Samples:
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def computed(cache: Cache) -> Samples:
    return samples("".join(ClusterMetrics(cache, Path("unused")).texts()))


def test_met15_each_node_states_what_it_has_and_what_its_pods_request() -> None:
    families = computed(cluster())

    def amounts(metric: str, node_name: str = "n") -> dict[str, float]:
        rows = families[f"karpenter_nodes_{metric}"]
        return {row["resource_type"]: value for row, value in rows if row["node_name"] == node_name}

    assert amounts("allocatable") == {"cpu": 4.0, "pods": 10.0}
    assert amounts("total_pod_requests") == {"cpu": 1.75, "pods": 2.0}
    assert amounts("total_pod_limits") == {"cpu": 2.0, "pods": 2.0}
    assert amounts("total_daemon_requests") == {"cpu": 0.25, "pods": 1.0}
    assert amounts("total_daemon_limits") == {"pods": 1.0}
    assert amounts("total_pod_requests", "other") == {"pods": 0.0}
    assert amounts("system_overhead") == {}


def test_met15_a_node_has_its_well_known_labels_in_snake_case() -> None:
    rows = [row for row, _ in computed(cluster())["karpenter_nodes_allocatable"]]
    assert rows[0] == {
        "node_name": "n",
        "managed": "true",
        "nodepool": "default",
        "zone": "us-west-2a",
        "arch": "arm64",
        "capacity_type": "spot",
        "instance_type": "m7g.large",
        "instance_family": "m7g",
        "resource_type": "cpu",
    }
    assert {row["managed"] for row in rows if row["node_name"] == "other"} == {"false"}
    assert len(set(LABEL_NAMES.values())) == len(LABEL_NAMES)


def test_met15_the_overhead_is_what_the_system_keeps() -> None:
    cache = Cache()
    record = node()
    sized = replace(record, capacity={"cpu": 4000, "memory": 8}, allocatable={"cpu": 3920, "memory": 6})
    cache.nodes.on_event("n", sized)
    rows = computed(cache)["karpenter_nodes_system_overhead"]
    assert {row["resource_type"]: value for row, value in rows} == {"cpu": 0.08, "memory": 2.0}


def test_met16_met17_ages_and_utilization() -> None:
    families = computed(cluster())
    assert {row["node_name"]: value for row, value in families["karpenter_nodes_current_lifetime_seconds"]} == {
        "n": 90.0,
        "other": 90.0,
    }
    utilization = {row["resource_type"]: value for row, value in families["karpenter_cluster_utilization_percent"]}
    assert utilization == {"cpu": 21.875, "pods": 10.0}


def test_met22_each_pod_says_where_it_is_and_how_it_does() -> None:
    rows = {row["name"]: row for row, value in computed(cluster())["karpenter_pods_state"] if value == 1}
    assert rows["web"] == {
        "name": "web",
        "namespace": "ns",
        "owner": "/apis/apps/v1/namespaces/ns/replicasets/web",
        "node": "n",
        "scheduled": "true",
        "nodepool": "default",
        "zone": "us-west-2a",
        "arch": "arm64",
        "capacity_type": "spot",
        "instance_type": "m7g.large",
        "phase": "Running",
        "ready": "true",
        "managed": "true",
    }
    assert rows["waits"] == {
        "name": "waits",
        "namespace": "ns",
        "scheduled": "false",
        "phase": "Pending",
        "ready": "false",
        "managed": "false",
    }
    assert rows["ended"]["phase"] == "Succeeded"


def test_no_text_of_a_tenant_breaks_the_scrape() -> None:
    """The API server takes any kind of an owner and any type of a Node's condition; Prometheus refuses a bad line."""
    cache, text = cluster(), 'a"} 1\n\\'
    pod = running("odd", "n", meta=owned_by(text))
    cache.pods.on_event(pod.key, pod)
    broken = {"type": text, "status": text, "reason": text, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    odd_node = node("odd", meta={"labels": {labels.NODEPOOL: "default"}}, conditions=[broken])
    cache.nodes.on_event("odd", odd_node)
    families = computed(cache)
    (owner,) = {row["owner"] for row, _ in families["karpenter_pods_state"] if row["name"] == "odd"}
    assert text.lower() in owner.lower()
    rows = [row for row, _ in families[CONDITION_COUNT["node"].name] if row["name"] == "odd"]
    assert (text, text) in {(row["type"], row["status"]) for row in rows}


def test_met05_pods_that_wait_are_counted_by_their_only_zone() -> None:
    cache = Cache()

    def waits(name: str, *zones: str) -> None:
        term = {"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": list(zones)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        record = waiting(name, affinity={"nodeAffinity": required}) if zones else waiting(name)
        cache.pods.on_event(record.key, record)

    waits("a", "us-west-2a")
    waits("b", "us-west-2a")
    waits("c", "us-west-2a", "us-west-2b")
    waits("d")
    rows = computed(cache)["karpenter_scheduler_pending_pods_by_effective_zone_count"]
    assert {row["zone"]: value for row, value in rows} == {"us-west-2a": 2.0, "flexible": 2.0}
    assert {row["controller"] for row, _ in rows} == {"provisioner"}


def test_sums_of_a_node_follow_its_pods() -> None:
    """They are kept between scrapes."""
    cache = cluster()
    metrics = ClusterMetrics(cache, Path("unused"))
    "".join(metrics.texts())
    more = running("more", "n", cpu="1")
    cache.pods.on_event(more.key, more)
    rows = samples("".join(metrics.texts()))["karpenter_nodes_total_pod_requests"]
    assert [value for row, value in rows if row["resource_type"] == "cpu"] == [2.75]


def test_every_label_is_declared() -> None:
    declared = series()
    for name, rows in computed(cluster()).items():
        for row, _ in rows:
            assert set(row) <= declared[name], name


@asynccontextmanager
async def leading(cache: Cache, folder: Path) -> AsyncIterator[None]:
    async def serves() -> bool:
        return any(os.scandir(folder))

    async with in_background(ClusterMetrics(cache, folder).run()):
        await until(serves)
        yield


@pytest.mark.integration
async def test_a_scrape_has_the_gauges_only_while_the_replica_leads() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = serve_metrics(name, 0)

        def scrape() -> Samples:
            address = f"http://127.0.0.1:{server.server_address[1]}/metrics"
            request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
                return samples(gzip.decompress(answer.read()).decode())

        try:
            async with leading(cluster(), folder):
                families = await asyncio.to_thread(scrape)
                assert len(families["karpenter_pods_state"]) == 4
            assert "karpenter_pods_state" not in await asyncio.to_thread(scrape)
        finally:
            await asyncio.to_thread(server.shutdown)
            server.server_close()


@pytest.mark.integration
async def test_a_leader_whose_folder_is_too_deep_for_a_socket_goes_on_without_its_metrics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anything that ends in a leader ends its process, and metrics are not worth that."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()

    async def reported() -> bool:
        return "The leader serves no metrics of nodes and pods" in caplog.messages

    async with in_background(ClusterMetrics(cluster(), deep).run()):
        await until(reported)
    (record,) = caplog.records
    assert "too long" in record.__dict__["error"]


def condition(status: str, at: str, reason: str = "Said") -> dict[str, str]:
    return {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": at}


POOL_LABELS = {labels.NODEPOOL: "conditions", labels.EC2NODECLASS: "default"}
OF_POOL = {"karpenter_sh_nodepool": "conditions", "karpenter_k8s_aws_ec2nodeclass": "default"}


def test_met60_each_condition_says_since_when() -> None:
    cache = Cache()
    cache.clock = lambda: CREATED + 90
    conditions = [condition("False", "2026-01-01T00:00:30Z", 'a "reason"')]
    cache.claims.on_event("a", claim("a", meta={"labels": POOL_LABELS}, status={"conditions": conditions}))
    cache.nodes.on_event("n", node(meta={"labels": {**POOL_LABELS, labels.INITIALIZED: "true"}}))
    cache.nodes.on_event("other", node("other"))
    families = computed(cache)
    of_claim = {"name": "a", "type": "Ready", "status": "False", "reason": 'a "reason"', **OF_POOL}
    assert families["operator_nodeclaim_status_condition_count"] == [(of_claim, 1.0)]
    assert families["operator_nodeclaim_status_condition_current_status_seconds"] == [(of_claim, 60.0)]
    of_node = {"name": "n", "type": "Ready", "status": "True", "karpenter_sh_initialized": "true", **OF_POOL}
    assert families["operator_node_status_condition_count"] == [(of_node, 1.0)]
    assert families["operator_nodeclaim_termination_current_time_seconds"] == []


def counted(name: str, **own: str) -> float:
    return REGISTRY.get_sample_value(f"operator_nodeclaim_{name}", {**OF_POOL, **own}) or 0.0


def test_met60_changes_of_conditions_are_counted() -> None:
    cache = Cache()
    metrics = ClusterMetrics(cache, Path("unused"))
    cache.clock = lambda: CREATED + 300

    def shows(status: str, at: str, **meta: str) -> None:
        record = claim("a", meta={"labels": POOL_LABELS, **meta}, status={"conditions": [condition(status, at)]})
        cache.claims.on_event("a", record)

    with metrics.observing():
        shows("Unknown", "2026-01-01T00:00:00Z")
        shows("True", "2026-01-01T00:00:40Z")
        shows("True", "2026-01-01T00:00:40Z", deletionTimestamp="2026-01-01T00:04:00Z")
        terminating = computed(cache)["operator_nodeclaim_termination_current_time_seconds"]
        cache.claims.on_event("a", None)
    assert [value for _, value in terminating] == [60.0]
    transitions = "status_condition_transitions_total"
    assert counted(transitions, type="Ready", status="Unknown", reason="Said") == 1.0
    assert counted(transitions, type="Ready", status="True", reason="Said") == 1.0
    change = {"type": "Ready", "status": "Unknown", "to_status": "True"}
    assert counted("status_condition_transition_seconds_sum", **change) == 40.0
    assert counted("termination_duration_seconds_sum") == counted("termination_duration_seconds_count") * 60.0 > 0


def series_of(name: str, pool: str) -> list[tuple[dict[str, str], float]]:
    """All series of a metric whose NodePool begins like this."""
    return [
        (sample.labels, sample.value)
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == name and sample.labels["karpenter_sh_nodepool"].startswith(pool)
    ]


def node_count(name: str, pool: str, **own: str) -> float:
    """The sum of all series of a metric of Nodes with these labels."""
    return sum(value for row, value in series_of(f"operator_node_{name}", pool) if own.items() <= row.items())


def changing(cache: Cache, name: str, conditions: list[dict[str, str]], **own: str) -> None:
    """A Node shows conditions for 40 s with the status False, then with the status True."""
    for status, at in (("False", "2026-01-01T00:00:00Z"), ("True", "2026-01-01T00:00:40Z")):
        shown = [{"status": status, **condition, "lastTransitionTime": at} for condition in conditions]
        cache.nodes.on_event(name, node(name, meta={"labels": own}, conditions=shown))


def owned(name: str, pool: str) -> Cache:
    """A cluster with a NodeClaim whose Node has this name."""
    cache = Cache()
    cache.clock = lambda: CREATED + 300
    owner = claim(meta={"labels": {labels.NODEPOOL: pool}}, status={"providerID": f"aws:///us-west-2a/i-{name}"})
    cache.claims.on_event("claim", owner)
    return cache


def test_met60_only_nodes_of_nodeclaims_are_counted() -> None:
    """Nodes of somebody else, however they are labelled, have no counts, and a Node cannot choose its NodePool."""
    cache = owned("n", "counted")
    with ClusterMetrics(cache, Path("unused")).observing():
        changing(cache, "n", [{"type": "DiskPressure"}], **{labels.NODEPOOL: "forged", labels.INITIALIZED: "true"})
        changing(cache, "other", [{"type": "DiskPressure"}])
        changing(cache, "labelled", [{"type": "DiskPressure"}], **{labels.NODEPOOL: "foreign"})
        for name in ("n", "other"):
            cache.nodes.on_event(name, node(name, meta={"deletionTimestamp": "2026-01-01T00:04:00Z"}))
            cache.nodes.on_event(name, None)
    change = {"type": "DiskPressure", "status": "False", "to_status": "True", "karpenter_sh_initialized": "true"}
    assert node_count("status_condition_transition_seconds_sum", "counted", **change) == 40.0
    assert node_count("termination_duration_seconds_sum", "counted") == 60.0
    for metric in ("status_condition_transitions_total", "termination_duration_seconds_count"):
        pools = {row["karpenter_sh_nodepool"] for row, _ in series_of(f"operator_node_{metric}", "")}
        assert "counted" in pools
        assert pools.isdisjoint({"forged", "foreign", ""})


def test_met60_a_node_whose_claim_vanishes_first_is_counted() -> None:
    """Both lose their finalizer at nearly the same time, and their watches are independent."""
    cache = owned("n", "vanishing")
    with ClusterMetrics(cache, Path("unused")).observing():
        cache.nodes.on_event("n", node("n", meta={"deletionTimestamp": "2026-01-01T00:04:00Z"}))
        cache.claims.on_event("claim", None)
        cache.nodes.on_event("n", None)
    assert node_count("termination_duration_seconds_sum", "vanishing") == 60.0


def test_met60_what_a_kubelet_writes_has_few_series() -> None:
    """Each series takes room in a file system of fixed size, and a worker that finds it full ends at once."""
    cache = owned("n", "noisy")
    noise = [{"type": f"Type{number}", "reason": f"Reason{number}"} for number in range(200)]
    with ClusterMetrics(cache, Path("unused")).observing():
        own = {labels.NODEPOOL: "noisy"}
        odd = [{"type": "Long", "reason": "r" * 1000}, {"type": "\N{SNOWMAN}"}, {"type": "Odd", "status": "Maybe"}]
        changing(cache, "n", [*odd, *noise], **own)
        changing(cache, "n", [{"type": "DiskPressure"}], **own)
    total, seconds = "status_condition_transitions_total", "status_condition_transition_seconds_count"
    assert node_count(total, "noisy", type="Type0", status="True", reason="Reason0") == 1.0
    assert node_count(seconds, "noisy", type="other", status="False", to_status="True") > 100
    assert node_count(total, "noisy", type="DiskPressure", status="True") == 1.0
    rows = [row for row, _ in series_of(f"operator_node_{total}", "noisy")]
    assert len({row["type"] for row in rows}) <= 51
    assert len({row["reason"] for row in rows}) <= 51
    assert {row["status"] for row in rows} == {"True", "False", "other"}
    assert max(len(row["reason"]) for row in rows) <= 100
    assert all(row["type"].isascii() for row in rows)


def test_met60_counts_have_a_limit_that_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conditions_module, "MAX_SERIES", 3)
    cache = Cache()
    with ClusterMetrics(cache, Path("unused")).observing():
        for number in range(10):
            own = {"labels": {labels.NODEPOOL: f"limited-{number}"}}
            shown = {"conditions": [condition("Unknown", "2026-01-01T00:00:00Z")]}
            for name in ("a", "b"):
                cache.claims.on_event(name, None)
                cache.claims.on_event(name, claim(name, meta=own, status=shown))
    counts = series_of("operator_nodeclaim_status_condition_transitions_total", "limited-")
    shown_pools = [(row["karpenter_sh_nodepool"], value) for row, value in counts]
    assert shown_pools == [("limited-0", 2.0), ("limited-1", 2.0), ("limited-2", 2.0)]
    (record,) = caplog.records
    assert record.__dict__["kind"] == "nodeclaim"


def test_met13_nodes_of_nodepools_that_went_have_quantiles() -> None:
    cache = Cache()
    cache.clock = lambda: CREATED + 90
    metrics = ClusterMetrics(cache, Path("unused"))
    cache.pools.on_event("default", decode_object(json.dumps({**NODEPOOL, "metadata": {"name": "default"}}).encode()))
    leaving = {"deletionTimestamp": "2026-01-01T00:01:00Z"}
    with metrics.observing():
        for name, own in (("n", NODE_LABELS), ("other", {})):
            cache.nodes.on_event(name, node(name, meta={"labels": own, **leaving}))
            cache.nodes.on_event(name, None)
    rows = samples("".join(metrics.texts()))["karpenter_nodes_termination_duration_seconds"]
    assert ({"nodepool": "default", "quantile": "0.9"}, 30.0) in rows
    assert {row["nodepool"] for row, _ in rows} == {"default"}
