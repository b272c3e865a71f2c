"""What a guide finds out before it begins, and what it remembers, on an API server in memory."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from activities.clock import utc_now
from activities.kubernetes.resources import (
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NODECLAIMS,
    NODEPOOLS,
    PODS,
    PROVISIONERS,
    Resource,
)
from cli.diagnosis.finding import DoctorFinding, FindingState
from cli.switching import checks, memory
from cli.switching.before_migrating import examine
from cli.switching.definitions import stored_as_v1beta1
from cli.switching.deployments import DeploymentError, Workload, karpenters, tenons
from cli.switching.leases import LeaseWatch
from cli.switching.memory import Memory, SwitchMemoryError
from tenon.apis.crd import custom_resource_definitions
from tenon.kube.timestamps import format_instant
from tenon.migration.switch import Direction, Switch, SwitchPhase
from tests.activities.node.fake_kube import START, Clock, FakeKube

LEASE = "karpenter-leader-election"
KARPENTER, TENON = Workload("Karpenter", "kube-system", "karpenter"), Workload("Tenon", "tenon", "tenon")


class Cluster(FakeKube):
    """Also selects by name, by reason, and by a label of any value."""

    async def list(self, resource: Resource, **query: Any) -> list[dict[str, Any]]:
        field, _, value = str(query.pop("field_selector", "")).partition("=")
        any_of = str(query.pop("label_selector", ""))
        objects = await super().list(resource, **query, label_selector=any_of if "=" in any_of else "")
        if any_of and "=" not in any_of:
            objects = [obj for obj in objects if any_of in (obj["metadata"].get("labels") or {})]
        if field == "metadata.name":
            return [obj for obj in objects if obj["metadata"]["name"] == value]
        return [obj for obj in objects if obj.get(field) == value] if field else objects


def deployment(namespace: str, name: str, app: str = "", **variables: str) -> dict[str, Any]:
    env = [{"name": key, "value": value} for key, value in variables.items()]
    pod = {"spec": {"containers": [{"name": "controller", "env": env}]}}
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    labels = {"app.kubernetes.io/name": app} if app else {}
    metadata = {"namespace": namespace, "name": name, "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": 2, "selector": selector, "template": pod}}


@pytest.fixture
def kube() -> Cluster:
    cluster = Cluster(Clock())
    cluster.add(DEPLOYMENTS, deployment("kube-system", "karpenter", "karpenter"))
    cluster.add(DEPLOYMENTS, deployment("tenon", "tenon", "tenon"))
    cluster.add(DEPLOYMENTS, deployment("default", "web", "web"))
    for definition in custom_resource_definitions().values():
        cluster.add(CRDS, copy.deepcopy(definition))
    return cluster


async def faults(kube: Cluster) -> list[str]:
    findings = await checks.before_takeover(kube, KARPENTER, TENON, stop_first=False)  # type: ignore[arg-type]
    return [finding.sentence for finding in findings if finding.state is FindingState.FAULT]


async def test_the_deployments_are_found_by_their_labels_or_by_name(kube: Any) -> None:
    assert await karpenters(kube, None) == KARPENTER
    assert await tenons(kube, None) == TENON
    kube.add(DEPLOYMENTS, deployment("other", "karpenter"))
    with pytest.raises(DeploymentError, match="Several Deployments") as several:
        await karpenters(kube, None)
    assert not several.value.is_missing
    assert str(await karpenters(kube, "other/karpenter")) == "other/karpenter"


async def test_a_shadow_is_not_tenon_though_it_has_its_labels(kube: Any) -> None:
    shadow = deployment("tenon", "tenon-shadow", "tenon")
    shadow["spec"]["template"]["spec"]["containers"] = [{"name": "shadow"}]
    kube.add(DEPLOYMENTS, shadow)
    assert await tenons(kube, None) == TENON
    for name in ("shadow", "worker"):
        metadata = {"name": name, "namespace": "tenon", "labels": {"app.kubernetes.io/name": "tenon"}}
        kube.add(PODS, {"metadata": metadata, "spec": {"containers": [{"name": name}]}})
    (pod,) = await TENON.pods(kube, await TENON.read(kube))
    assert pod["metadata"]["name"] == "worker"


@pytest.mark.parametrize(
    ("name", "sentence"), [("karpenter", "is not NAMESPACE/NAME"), ("default/none", "does not exist")]
)
async def test_a_deployment_that_is_named_wrongly_is_refused(kube: Any, name: str, sentence: str) -> None:
    with pytest.raises(DeploymentError, match=sentence) as refused:
        await karpenters(kube, name)
    assert not refused.value.is_missing


async def test_a_cluster_without_karpenter_has_none_to_find() -> None:
    with pytest.raises(DeploymentError, match="--karpenter NAMESPACE/NAME") as missing:
        await karpenters(Cluster(Clock()), None)  # type: ignore[arg-type]
    assert missing.value.is_missing


async def test_a_sound_cluster_has_no_fault(kube: Cluster) -> None:
    assert await faults(kube) == []


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"DISABLE_LEADER_ELECTION": "true"}, "without leader election"),
        ({"LEADER_ELECT": "false"}, "without leader election"),
        ({"LEADER_ELECTION_NAME": "own"}, "Karpenter's Lease is own"),
    ],
)
async def test_a_karpenter_that_tenon_cannot_see_is_a_fault(
    kube: Cluster, variables: dict[str, str], sentence: str
) -> None:
    kube.add(DEPLOYMENTS, deployment("kube-system", "karpenter", "karpenter", **variables))
    (fault,) = await faults(kube)
    assert sentence in fault


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--disable-leader-election", "without leader election"),
        ("--leader-election-name=own", "Karpenter's Lease is own"),
    ],
)
async def test_flags_of_karpenter_count_and_the_variables_of_a_sidecar_do_not(
    kube: Cluster, flag: str, sentence: str
) -> None:
    body = deployment("kube-system", "karpenter", "karpenter")
    (controller,) = body["spec"]["template"]["spec"]["containers"]
    sidecar = {"name": "proxy", "env": [{"name": "DISABLE_LEADER_ELECTION", "value": "true"}]}
    body["spec"]["template"]["spec"]["containers"] = [controller, sidecar]
    kube.add(DEPLOYMENTS, body)
    assert await faults(kube) == []
    controller["args"] = [flag]
    kube.add(DEPLOYMENTS, body)
    (fault,) = await faults(kube)
    assert sentence in fault


async def test_variables_of_config_maps_count_for_both_controllers(kube: Cluster) -> None:
    for namespace, name in (("kube-system", "karpenter"), ("tenon", "tenon")):
        body = deployment(namespace, name, name)
        body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
        kube.add(DEPLOYMENTS, body)
    set_variables(kube, "kube-system", LEADER_ELECTION_NAME="own")
    set_variables(kube, "tenon", LEADER_ELECTION_NAME="own")
    assert await faults(kube) == []
    set_variables(kube, "tenon")
    (fault,) = await faults(kube)
    assert "Karpenter's Lease is own" in fault
    set_variables(kube, "kube-system", DISABLE_LEADER_ELECTION="true")
    (fault,) = await faults(kube)
    assert "without leader election" in fault


def set_variables(kube: Cluster, namespace: str, **data: str) -> None:
    kube.add(CONFIGMAPS, {"metadata": {"name": "settings", "namespace": namespace}, "data": data})


@pytest.mark.parametrize("source", [{"secretRef": {"name": "settings"}}, {"configMapRef": {"name": "settings"}}])
async def test_variables_that_cannot_be_read_are_a_warning(kube: Cluster, source: dict[str, Any]) -> None:
    body = deployment("kube-system", "karpenter", "karpenter")
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [source]
    kube.add(DEPLOYMENTS, body)
    findings = await checks.before_takeover(kube, KARPENTER, TENON, stop_first=False)  # type: ignore[arg-type]
    (warning,) = [finding for finding in findings if finding.state is FindingState.WARNING]
    assert "settings, which were not read" in warning.sentence


async def test_the_gates_of_karpenter_may_be_flags(kube: Any) -> None:
    budget = {"disruption": {"budgets": [{"nodes": "0"}], "consolidateAfter": "30s"}}
    kube.add(NODEPOOLS, {"kind": "NodePool", "metadata": {"name": "web"}, "spec": budget})
    without = await examine(kube, None)
    body = deployment("kube-system", "karpenter", "karpenter")
    body["spec"]["template"]["spec"]["containers"][0]["args"] = ["--feature-gates=NodeRepair=true"]
    kube.add(DEPLOYMENTS, body)
    assert len((await examine(kube, None)).differences) > len(without.differences)


async def store_v1beta1(kube: Any) -> None:
    for name in ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh"):
        definition = await kube.get(CRDS, name)
        for version in definition["spec"]["versions"]:
            version["storage"] = version["name"] == "v1beta1"
        kube.add(CRDS, definition)


async def test_objects_of_v1beta1_are_judged_as_tenon_converts_them(kube: Any) -> None:
    """A consolidation has another name there."""
    await store_v1beta1(kube)
    reference = {"name": "ours"}
    disruption = {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}
    spec = {"disruption": disruption, "template": {"spec": {"nodeClassRef": reference}}}
    kube.add(replace(NODEPOOLS, version="v1beta1"), {"metadata": {"name": "web"}, "spec": spec})
    kube.add(replace(NODEPOOLS, version="v1beta1"), {"metadata": {"name": "broken"}, "spec": {"disruption": 7}})
    claim = {"name": "web-1", "labels": {"karpenter.sh/nodepool": "web"}}
    kube.add(replace(NODECLAIMS, version="v1beta1"), {"metadata": claim, "spec": {"nodeClassRef": reference}})
    differences = (await examine(kube, None)).differences
    assert ("NodePool", "web") in [(item.kind, item.name) for item in differences if item.row == "WSH-01"]


async def test_a_takeover_from_v1beta1_names_the_nodes_that_are_overdue(kube: Any) -> None:
    """Karpenter waits for budgets there, and v1 drains an expired node at once."""
    await store_v1beta1(kube)
    pools, claims = replace(NODEPOOLS, version="v1beta1"), replace(NODECLAIMS, version="v1beta1")
    for name, expiry, marks in (
        ("web", "24h", {}),
        ("late", "Never", {}),
        ("calm", "24h", {"tenon.sh/expire-within-budgets": "true"}),
    ):
        spec = {"disruption": {"expireAfter": expiry}, "template": {"spec": {"nodeClassRef": {"name": "ours"}}}}
        kube.add(pools, {"metadata": {"name": name, "annotations": marks}, "spec": spec})
        for number, age in enumerate((timedelta(hours=25), timedelta(hours=23))):
            metadata = {
                "name": f"{name}-{number}",
                "labels": {"karpenter.sh/nodepool": name},
                "creationTimestamp": format_instant(utc_now() - age),
            }
            kube.add(claims, {"metadata": metadata, "spec": {"nodeClassRef": {"name": "ours"}}})
    findings = await checks.before_takeover(kube, KARPENTER, TENON, stop_first=True)
    (overdue,) = [finding for finding in findings if finding.check == "expiry"]
    assert overdue.state is FindingState.WARNING
    assert overdue.sentence.startswith("1 node is older than the expireAfter of its NodePool (web)")


async def test_a_handback_needs_a_lease_that_shows_that_karpenter_leads(kube: Cluster) -> None:
    kube.add(DEPLOYMENTS, deployment("kube-system", "karpenter", "karpenter", DISABLE_LEADER_ELECTION="true"))
    findings = await checks.before_handback(kube, KARPENTER)  # type: ignore[arg-type]
    (fault,) = [finding.sentence for finding in findings if finding.state is FindingState.FAULT]
    assert "without leader election" in fault


def warm_claim(name: str, **metadata: Any) -> dict[str, Any]:
    marks = {"annotations": {"tenon.sh/warm": "stopped"}, "labels": {"karpenter.sh/nodepool": "web"}}
    return {"kind": "NodeClaim", "metadata": {"name": name, **marks, **metadata}, "spec": {}}


async def test_a_handback_is_refused_while_nodes_are_warm(kube: Cluster) -> None:
    """Karpenter starts no stopped instance, and a Tenon that leads again would buy other warm nodes."""
    kube.add(NODECLAIMS, warm_claim("leaves", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f"]))
    assert await of_handback(kube, FindingState.FAULT) == []
    kube.add(NODECLAIMS, warm_claim("web-1"))
    (fault,) = await of_handback(kube, FindingState.FAULT)
    assert (
        fault.sentence == "1 warm node (web-1) has a stopped instance or will have one, which Karpenter never starts."
    )
    assert "kubectl annotate nodepool web tenon.sh/warm-" in fault.remedy


async def of_handback(kube: Cluster, state: FindingState) -> list[DoctorFinding]:
    findings = await checks.before_handback(kube, KARPENTER)  # type: ignore[arg-type]
    return [finding for finding in findings if finding.state is state]


def karpenter_of(tag: str, version: str = "") -> dict[str, Any]:
    body = deployment("kube-system", "karpenter", "karpenter")
    body["spec"]["template"]["spec"]["containers"][0]["image"] = f"registry:5000/karpenter/controller{tag}"
    if version:
        body["metadata"]["labels"]["app.kubernetes.io/version"] = version
    return body


@pytest.mark.parametrize(
    ("tag", "label", "version"),
    [
        (":0.37.6", "", "0.37"),
        (":v0.32.1@sha256:6d5c", "", "0.32"),
        ("@sha256:6d5c", "0.36.0", "0.36"),
        (":ours", "v0.37.0", "0.37"),
    ],
)
async def test_a_handback_to_a_karpenter_that_cannot_read_v1_is_refused(
    kube: Cluster, tag: str, label: str, version: str
) -> None:
    kube.add(DEPLOYMENTS, karpenter_of(tag, label))
    (fault,) = await of_handback(kube, FindingState.FAULT)
    assert fault.sentence == f"Karpenter (kube-system/karpenter) is {version}, which cannot read objects of v1."


@pytest.mark.parametrize(("tag", "label"), [(":1.0.0", ""), (":1.15.0", "0.37.0"), (":ours", ""), ("", "")])
async def test_a_karpenter_that_reads_v1_or_shows_no_version_may_lead_again(
    kube: Cluster, tag: str, label: str
) -> None:
    kube.add(DEPLOYMENTS, karpenter_of(tag, label))
    assert await of_handback(kube, FindingState.FAULT) == []


@pytest.mark.parametrize(
    ("tag", "state", "sentence"),
    [
        (":1.1.0", FindingState.FAULT, "Karpenter 1.1 does not start while"),
        (":1.5.3", FindingState.FAULT, "Karpenter 1.5 does not start while"),
        (":1.6.0", FindingState.WARNING, "Karpenter 1.6 ignores the kubelet settings"),
        (":ours", FindingState.WARNING, "Karpenter 1.1 to 1.5 does not start"),
    ],
)
async def test_kubelet_settings_of_v1beta1_on_a_nodepool_are_named_before_a_handback(
    kube: Cluster, tag: str, state: FindingState, sentence: str
) -> None:
    kube.add(DEPLOYMENTS, karpenter_of(":1.0.8"))
    annotations = {"compatibility.karpenter.sh/v1beta1-kubelet-conversion": '{"maxPods":20}'}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "ours"}
    spec = {"template": {"spec": {"nodeClassRef": reference}}}
    kube.add(NODEPOOLS, {"kind": "NodePool", "metadata": {"name": "web", "annotations": annotations}, "spec": spec})
    assert await of_handback(kube, FindingState.FAULT) == [], "1.0 still reads the annotation"
    assert await of_handback(kube, FindingState.WARNING) == []
    kube.add(DEPLOYMENTS, karpenter_of(tag))
    (finding,) = await of_handback(kube, state)
    assert sentence in finding.sentence
    assert "web" in finding.sentence
    assert "EC2NodeClass ours" in finding.remedy


async def test_a_lease_that_tenon_ignores_is_a_fault(kube: Cluster) -> None:
    event = {"metadata": {"name": "e", "namespace": "kube-system"}, "reason": "LeaseIgnored"}
    kube.add(EVENTS, {**event, "involvedObject": {"name": LEASE}})
    (fault,) = await faults(kube)
    assert "acts while Karpenter leads" in fault


async def test_an_object_that_tenon_refuses_is_a_fault_that_names_it(kube: Cluster) -> None:
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "broken"},
        "spec": {"weight": "x"},
    }
    kube.add(NODEPOOLS, body)
    (fault,) = await faults(kube)
    assert "broken" in fault


async def test_objects_that_an_upgrade_left_behind_are_a_warning(kube: Cluster) -> None:
    kube.add(PROVISIONERS, {"kind": "Provisioner", "metadata": {"name": "old"}})
    findings = await checks.before_takeover(kube, KARPENTER, TENON, stop_first=False)  # type: ignore[arg-type]
    (warning,) = [finding for finding in findings if finding.state is FindingState.WARNING]
    assert "1 Provisioner" in warning.sentence


async def test_crds_that_store_v1beta1_are_karpenters_until_tenon_converts(kube: Any) -> None:
    assert await stored_as_v1beta1(kube) == []
    definition = await kube.get(CRDS, "nodepools.karpenter.sh")
    definition["status"] = {"storedVersions": ["v1beta1", "v1"]}
    kube.add(CRDS, copy.deepcopy(definition))
    assert await stored_as_v1beta1(kube) == [], "Tenon's webhook converts them"
    definition["spec"]["conversion"] = {"strategy": "None"}
    kube.add(CRDS, definition)
    assert await stored_as_v1beta1(kube) == ["nodepools.karpenter.sh"]


async def test_a_lease_counts_until_it_has_not_changed_for_its_duration(kube: Any) -> None:
    now = 0.0
    watch = LeaseWatch(kube, clock=lambda: now)

    def renew(holder: str, at: str) -> None:
        spec = {"holderIdentity": holder, "renewTime": at, "leaseDurationSeconds": 15}
        kube.add(LEASES, {"metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})

    renew("karpenter-1_a", "1")
    (holder,) = await watch.holders()
    assert (holder.is_tenon, holder.renews) == (False, False), "it may have been killed long ago"
    now = 14.0
    assert await watch.holders()
    renew("karpenter-1_a", "2")
    (holder,) = await watch.holders()
    assert holder.renews
    now = 30.0
    assert await watch.holders() == []
    renew("tenon/vm_1", "3")
    (holder,) = await watch.holders()
    assert (holder.is_tenon, holder.renews) == (True, True), "it has just taken the Lease"


async def test_what_is_remembered_is_read_back(kube: Any) -> None:
    assert await memory.read(kube, "tenon") is None
    begun = Switch(Direction.HANDBACK, 3, 2, timedelta(minutes=5), timedelta(seconds=90), START, START)
    remembered = Memory(begun, "kube-system/karpenter", {"a": "i-1"}, ("broken",))
    await memory.write(kube, "tenon", remembered)
    stored = await memory.read(kube, "tenon")
    assert stored is not None
    assert (stored.switch, stored.instances, list(stored.unready)) == (begun, {"a": "i-1"}, ["broken"])
    later = replace(remembered, switch=begun.entered(SwitchPhase.RETURNING, START, "it does not lead"), instances=None)
    await memory.write(kube, "tenon", later)
    stored = await memory.read(kube, "tenon")
    assert stored is not None
    assert (stored.switch.why_back, stored.instances) == ("it does not lead", None)


async def test_memory_that_somebody_edited_is_refused(kube: Any) -> None:
    kube.add(CONFIGMAPS, {"metadata": {"name": memory.NAME, "namespace": "tenon"}, "data": {"state": "{}"}})
    with pytest.raises(SwitchMemoryError, match="delete the ConfigMap"):
        await memory.read(kube, "tenon")
