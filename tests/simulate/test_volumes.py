"""Pods go where their volumes are, or can be made, and nodes get no more volumes than they can attach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.running import POOL, deployment, node, simulate

ZONE = "topology.kubernetes.io/zone"


def made(kind: str, name: str, **parts: Any) -> str:
    group = {"PersistentVolume": "v1", "PersistentVolumeClaim": "v1"}.get(kind, "storage.k8s.io/v1")
    return "\n---\n" + json.dumps({"apiVersion": group, "kind": kind, "metadata": {"name": name}, **parts})


def volume(name: str, *zones: str, key: str = "topology.ebs.csi.aws.com/zone", **spec: Any) -> str:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]} for zone in zones]
    source = spec or {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}}
    affinity = {"required": {"nodeSelectorTerms": terms}}
    return made("PersistentVolume", name, spec={**source, "nodeAffinity": affinity})


def claim(name: str, **spec: Any) -> str:
    return made("PersistentVolumeClaim", name, spec=spec)


def storage_class(name: str, mode: str, *zones: str, **metadata: Any) -> str:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    text = made(
        "StorageClass", name, provisioner="ebs.csi.aws.com", volumeBindingMode=mode, allowedTopologies=topologies
    )
    return text.replace('"metadata": {', '"metadata": ' + json.dumps(metadata)[:-1] + ", ") if metadata else text


def mounting(*claims: str, replicas: int = 1) -> str:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]
    return deployment("web", replicas, volumes=volumes)


def zones_of(tmp_path: Path, text: str) -> list[str]:
    (planned,) = simulate(tmp_path, POOL + text).plan["nodeClaims"]
    (zones,) = [r["values"] for r in planned["requirements"] if r["key"] == ZONE]
    assert planned["offering"]["zone"] in zones
    return list(zones)


def reason(tmp_path: Path, text: str) -> str:
    (entry,) = simulate(tmp_path, POOL + text).plan["unschedulable"]
    return str(entry["reason"])


def test_sch070_a_bound_volume_holds_its_pod_in_its_zone(tmp_path: Path) -> None:
    bound = claim("data", volumeName="vol") + mounting("data")
    assert zones_of(tmp_path, volume("vol", "us-west-2b") + bound) == ["us-west-2b"]


def test_sch070_a_claim_whose_phase_is_bound_is_bound(tmp_path: Path) -> None:
    """Files seldom include the annotation that a cluster's claims have."""
    bound = made("PersistentVolumeClaim", "data", spec={"volumeName": "vol"}, status={"phase": "Bound"})
    assert zones_of(tmp_path, volume("vol", "us-west-2b") + bound + mounting("data")) == ["us-west-2b"]


def test_sch070_alternatives_of_several_volumes_are_taken_together(tmp_path: Path) -> None:
    text = volume("one", "us-west-2a", "us-west-2b") + volume("two", "us-west-2b", "us-west-2c")
    text += claim("a", volumeName="one") + claim("b", volumeName="two")
    assert zones_of(tmp_path, text + mounting("a", "b")) == ["us-west-2b"]
    apart = volume("three", "us-west-2c") + claim("c", volumeName="three")
    assert "no node can reach all of its volumes" in reason(tmp_path, text + apart + mounting("a", "c"))


def test_sch070_a_local_disk_does_not_tie_its_pod_to_a_machine_that_is_gone(tmp_path: Path) -> None:
    disk = volume("disk", "gone", key="kubernetes.io/hostname", local={"path": "/x"})
    answer = simulate(tmp_path, POOL + disk + claim("data", volumeName="disk") + mounting("data"))
    assert answer.plan["nodeClaims"]
    assert "note: pod default/web-0: its local volume disk is on Node gone, which is gone or leaving" in answer.err


def test_sch070_a_local_disk_holds_its_pod_to_a_machine_that_is_there(tmp_path: Path) -> None:
    disk = volume("disk", "n1", key="kubernetes.io/hostname", local={"path": "/x"})
    bound = disk + claim("data", volumeName="disk")
    present_items = node(labels={"kubernetes.io/hostname": "n1"})
    answer = simulate(tmp_path, POOL + present_items + bound + mounting("data"))
    assert answer.plan["existingNodes"] == [{"name": "n1", "pods": ["default/web-0"]}]
    assert "local volume" not in answer.err
    full = node(cpu="500m", labels={"kubernetes.io/hostname": "n1"})
    assert "its local volume disk is on Node n1, which cannot take the pod now" in reason(
        tmp_path, full + bound + mounting("data")
    )


def test_sch070_two_deployments_with_one_claim_of_one_pod_at_a_time_run_one_pod(tmp_path: Path) -> None:
    """A new ReplicaSet's pod waits for the old one, whichever node either could have."""
    shared = volume("vol", "us-west-2b") + claim("data", volumeName="vol", accessModes=["ReadWriteOncePod"])
    text = shared + mounting("data") + mounting("data").replace('"web"', '"app"')
    plan = simulate(tmp_path, POOL + text).plan
    assert [planned["pods"] for planned in plan["nodeClaims"]] == [["default/app-0"]]
    assert "ReadWriteOncePod and pod default/app-0, which is placed first, uses it too" in reason(tmp_path, text)
    many = shared.replace("ReadWriteOncePod", "ReadWriteMany")
    assert simulate(tmp_path, POOL + many + mounting("data", replicas=3)).plan["unschedulable"] == []


@pytest.mark.parametrize("declaration", [{"storageClassName": "waits"}, {}])
def test_sch071_a_volume_that_waits_for_its_pod_is_made_where_its_class_allows(
    tmp_path: Path, declaration: dict[str, Any]
) -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    text = storage_class("waits", "WaitForFirstConsumer", "us-west-2c", **default) + claim("data", **declaration)
    assert zones_of(tmp_path, text + mounting("data")) == ["us-west-2c"]


def test_sch073_an_ephemeral_volume_uses_the_class_of_its_template(tmp_path: Path) -> None:
    template = {"spec": {"storageClassName": "waits"}}
    pods = deployment("web", 1, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    assert zones_of(tmp_path, storage_class("waits", "WaitForFirstConsumer", "us-west-2b") + pods) == ["us-west-2b"]


def test_sch074_a_node_gets_no_more_volumes_than_it_can_attach(tmp_path: Path) -> None:
    text = node(labels={ZONE: "us-west-2a"}) + storage_class("waits", "WaitForFirstConsumer")
    text += made("CSINode", "n1", spec={"drivers": [{"name": "ebs.csi.aws.com", "allocatable": {"count": 2}}]})
    template = {"spec": {"storageClassName": "waits"}}
    pods = deployment("web", 5, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    plan = simulate(tmp_path, POOL + text + pods).plan
    assert len(plan["existingNodes"][0]["pods"]) == 2
    assert sum(len(planned["pods"]) for planned in plan["nodeClaims"]) == 3


def test_volumes_that_are_nowhere_are_a_reason(tmp_path: Path) -> None:
    assert "its volume claim default/data does not exist: create it" in reason(tmp_path, mounting("data"))
    lost = claim("data", volumeName="vol") + mounting("data")
    assert "the volume vol of its claim default/data does not exist" in reason(tmp_path, lost)
    unbound = storage_class("now", "Immediate") + claim("data", storageClassName="now") + mounting("data")
    assert "not bound yet, and its StorageClass binds at once" in reason(tmp_path, unbound)
    unknown = claim("data", storageClassName="other") + mounting("data")
    assert "of the unknown StorageClass other" in reason(tmp_path, unknown)


def test_a_claim_that_says_it_is_pending_is_not_bound_to_the_volume_it_names(tmp_path: Path) -> None:
    """Without a status it is taken as bound; files seldom have one."""
    pending = made("PersistentVolumeClaim", "data", spec={"volumeName": "vol"}, status={"phase": "Pending"})
    text = volume("vol", "us-west-2b") + pending + mounting("data")
    assert "its volume claim default/data is not bound to the volume vol yet" in reason(tmp_path, text)


def stateful(replicas: int, storage: str = "waits") -> str:
    template = {"metadata": {"name": "data"}, "spec": {"storageClassName": storage}}
    text = deployment("db", replicas).replace("Deployment", "StatefulSet")
    return text.replace('"template": ', f'"volumeClaimTemplates": [{json.dumps(template)}], "template": ')


def test_the_claims_of_a_stateful_set_hold_its_pods(tmp_path: Path) -> None:
    """A claim that is there binds its pod to its volume's zone, one still to be made to the zones of its class."""
    text = storage_class("waits", "WaitForFirstConsumer", "us-west-2b") + stateful(2)
    text += volume("vol", "us-west-2a") + claim("data-db-0", volumeName="vol")
    plan = simulate(tmp_path, POOL + text).plan
    zones = {pod: planned["offering"]["zone"] for planned in plan["nodeClaims"] for pod in planned["pods"]}
    assert zones == {"default/db-0": "us-west-2a", "default/db-1": "us-west-2b"}


def test_a_class_that_is_not_in_the_input_blocks_no_other(tmp_path: Path) -> None:
    answer = simulate(tmp_path, POOL + stateful(2, "unknown"))
    assert answer.plan["totals"]["unschedulable"] == 0
    assert "note: a StorageClass of StatefulSet default/db is not in the input" in answer.err
