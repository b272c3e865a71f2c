"""Generates a cluster's objects as an API server sends them: thousands of Nodes and NodeClaims, and many Pods.

They are as large as real ones (a Pod 6 KB, a Node 8 KB, a NodeClaim 11 KB with 600 instance types). They are rendered
from templates on request, so that the fake API server stays small.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tenon.apis import labels

Object = dict[str, Any]
WORKLOADS = 200
"""Number of Deployments that own the pods."""
POOLS = 5
TYPES = 600
"""Number of instance types in a NodeClaim's requirements."""
LONG_AGO = "2026-01-01T00:00:00Z"
GROUP, VERSION = "karpenter.k8s.aws", "v1"


def now() -> str:
    """Return the current time in Kubernetes' format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class FleetPod:
    """The fields of a pod that differ within its workload."""

    name: str
    workload: int
    node: str = ""
    phase: str = "Pending"
    bound: str = LONG_AGO
    ending: str = ""
    refused: bool = False
    """kube-scheduler found no node, because the pod selects a label that no node has."""
    version: int = 1

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"default/{self.name}"


@dataclass(slots=True)
class Fleet:
    """A cluster with this many nodes and pods. The pods are spread evenly."""

    nodes: int
    pods: int
    by_key: dict[str, FleetPod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill every node with its pods."""
        for number in range(self.pods):
            pod = FleetPod(f"app-{number}", number % WORKLOADS, node_name(number % self.nodes), "Running")
            self.by_key[pod.key] = pod


def node_name(number: int) -> str:
    return f"ip-10-{number // 65536}-{number // 256 % 256}-{number % 256}.us-west-2.compute.internal"


def claim_name(number: int) -> str:
    return f"pool-{number % POOLS}-{number:06d}"


FULL = "790m"
"""CPU of a pod. Twenty fill a node, so that consolidation looks at the nodes and finds nothing to do."""


def _managed(fields: int) -> list[Object]:
    """The managedFields that real objects carry. Nothing in the benchmark reads them."""
    owned: Object = {f"f:field-{number}": {".": {}, "f:name": {}, "f:value": {}} for number in range(fields)}
    entry = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": LONG_AGO, "fieldsV1": owned}
    return [entry]


def _template(body: Object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _filled(template: bytes, **values: str) -> bytes:
    for name, value in values.items():
        template = template.replace(b"@" + name.encode() + b"@", value.encode())
    return template


def _pod_body(workload: int, *, phase: str) -> Object:
    name = f"app-{workload}"
    mine = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/version": "1.2.3",
        "pod-template-hash": f"5d4f8c7{workload:03d}",
        "team": f"team-{workload % 20}",
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-5d4f8c7{workload:03d}",
        "uid": f"rs-{name}",
    }
    container = {
        "name": "main",
        "image": f"registry.example.com/team/{name}:1.2.3",
        "env": [{"name": f"SETTING_{number}", "value": f"value-of-setting-{number}"} for number in range(20)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": FULL, "memory": f"{64 + workload % 5 * 32}Mi"}},
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets"}],
        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
    }
    tolerated = [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for why in ("not-ready", "unreachable")
    ]
    true = [{"type": kind, "status": "True", "lastTransitionTime": "@BOUND@"} for kind in ("Initialized", "Ready")]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "namespace": "default",
            "uid": "uid-@NAME@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": LONG_AGO,
            "labels": mine,
            "annotations": {"checksum/config": "0" * 64, "prometheus.io/scrape": "true"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            "managedFields": _managed(40),
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": name,
            "schedulerName": "default-scheduler",
            "tolerations": tolerated,
            "topologySpreadConstraints": [spread] if workload % 10 == 0 else [],
            "priority": 0,
        },
        "status": {
            "phase": phase,
            "conditions": true,
            "containerStatuses": [{"name": "main", "ready": phase == "Running", "restartCount": 0}],
        },
    }


_pods: dict[tuple[int, str, bool, bool, bool], bytes] = {}


def pod_json(pod: FleetPod) -> bytes:
    """Render a Pod."""
    form = (pod.workload, pod.phase, bool(pod.node), bool(pod.ending), pod.refused)
    if form not in _pods:
        body = _pod_body(pod.workload, phase=pod.phase)
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "@BOUND@"}
        if pod.refused:
            scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            body["spec"]["nodeSelector"] = {"example.com/none-has-it": "true"}
        if pod.node:
            body["spec"]["nodeName"] = "@NODE@"
        if pod.node or pod.refused:
            body["status"]["conditions"].append(scheduled)
        if pod.ending:
            body["metadata"]["deletionTimestamp"] = "@ENDING@"
        _pods[form] = _template(body)
    values = {"NAME": pod.name, "VERSION": str(pod.version), "NODE": pod.node, "BOUND": pod.bound}
    return _filled(_pods[form], **values, ENDING=pod.ending)


def _node_body() -> Object:
    conditions = [
        {"type": kind, "status": "False", "lastHeartbeatTime": "@BEAT@", "lastTransitionTime": LONG_AGO}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    conditions.append({"type": "Ready", "status": "True", "lastHeartbeatTime": "@BEAT@", "reason": "KubeletReady"})
    quantities = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "80Gi"}
    images = [
        {"names": [f"registry.example.com/team/app-{n}@sha256:{'0' * 64}"], "sizeBytes": 10**8} for n in range(40)
    ]
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "uid": "uid-@NAME@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": LONG_AGO,
            "labels": {**_node_labels(), "kubernetes.io/hostname": "@NAME@"},
            "annotations": {"node.alpha.kubernetes.io/ttl": "300", "csi.volume.kubernetes.io/nodeid": "{}"},
            "managedFields": _managed(30),
        },
        "spec": {"providerID": "@PROVIDER@"},
        "status": {"capacity": quantities, "allocatable": quantities, "conditions": conditions, "images": images},
    }


def _node_labels() -> dict[str, str]:
    return {
        labels.NODEPOOL: "@POOL@",
        labels.REGISTERED: "true",
        labels.INITIALIZED: "true",
        labels.CAPACITY_TYPE: "on-demand",
        labels.INSTANCE_TYPE: "m5.4xlarge",
        labels.ARCH: "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "us-west-2",
        "topology.kubernetes.io/zone": "us-west-2a",
    }


def _claim_body() -> Object:
    planned = ",".join(f"default/first-@NUMBER@-{n}=uid-first-@NUMBER@-{n}" for n in range(20))
    types = [f"m{n % 9}{'abcdgin'[n % 7]}.{n}xlarge" for n in range(TYPES)]
    quantities = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "80Gi"}
    return {
        "kind": "NodeClaim",
        "apiVersion": "karpenter.sh/v1",
        "metadata": {
            "name": "@NAME@",
            "uid": "uid-@NAME@",
            "resourceVersion": "@VERSION@",
            "generation": 1,
            "creationTimestamp": LONG_AGO,
            "labels": {**_node_labels(), labels.BATCH: "1"},
            "annotations": {labels.PLANNED_PODS: planned},
            "finalizers": [labels.TERMINATION_FINALIZER],
            "managedFields": _managed(30),
        },
        "spec": {
            "nodeClassRef": {"group": GROUP, "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                {"key": labels.INSTANCE_TYPE, "operator": "In", "values": types},
                {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
            ],
            "resources": {"requests": {"cpu": "2", "memory": "4Gi", "pods": "20"}},
            "expireAfter": "Never",
        },
        "status": {
            "providerID": "@PROVIDER@",
            "nodeName": "@NODE@",
            "imageID": "ami-1",
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": "@CONDITIONS@",
            "lastPodEventTime": "@NOTED@",
        },
    }


_NODE = _template(_node_body())
_CLAIM = _template(_claim_body()).replace(b'"@CONDITIONS@"', b"@CONDITIONS@")
CONDITIONS = json.dumps(
    [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "",
            "lastTransitionTime": LONG_AGO,
            "observedGeneration": 1,
        }
        for kind in ("Launched", "Registered", "Initialized", "Ready")
    ],
    separators=(",", ":"),
)
"""The conditions of a NodeClaim until the leader writes others."""


def provider_id(number: int) -> str:
    """Return the provider ID of a node's instance."""
    return f"aws:///us-west-2a/i-{number:017x}"


def node_json(number: int, version: int, beat: str = LONG_AGO) -> bytes:
    """Render a Node with this heartbeat time."""
    values = {"NAME": node_name(number), "VERSION": str(version), "BEAT": beat}
    return _filled(_NODE, **values, PROVIDER=provider_id(number), POOL=f"pool-{number % POOLS}")


def claim_json(number: int, version: int, noted: str = LONG_AGO, conditions: str = CONDITIONS) -> bytes:
    """Render a NodeClaim with this ``lastPodEventTime`` and these conditions, a JSON text."""
    values = {"NAME": claim_name(number), "VERSION": str(version), "NODE": node_name(number), "NOTED": noted}
    where = {"PROVIDER": provider_id(number), "POOL": f"pool-{number % POOLS}", "NUMBER": str(number)}
    return _filled(_CLAIM, **values, **where, CONDITIONS=conditions)


def pool_body(number: int, *, policy: str, consolidate_after: str) -> Object:
    """Return a NodePool with this consolidationPolicy and consolidateAfter."""
    reference = {"group": GROUP, "kind": "EC2NodeClass", "name": "default"}
    only = [  # no cheaper node exists: spot capacity would replace every on-demand node
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.4xlarge"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]
    return {
        "kind": "NodePool",
        "apiVersion": "karpenter.sh/v1",
        "metadata": {"name": f"pool-{number}", "uid": f"uid-pool-{number}", "generation": 1},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": only, "expireAfter": "Never"}},
            "disruption": {"consolidationPolicy": policy, "consolidateAfter": consolidate_after},
            "limits": {"cpu": "1000000"},
        },
    }


def class_body() -> Object:
    """Return a ready EC2NodeClass."""
    terms = [{"tags": {"karpenter.sh/discovery": "sandbox"}}]
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": LONG_AGO}
    return {
        "kind": "EC2NodeClass",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {"name": "default", "uid": "uid-class", "generation": 1},
        "spec": {
            "role": "KarpenterNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
        "status": {
            "conditions": [{**ready, "observedGeneration": 1}],
            "subnets": [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}],
            "securityGroups": [{"id": "sg-1"}],
            "amis": [{"id": "ami-1", "requirements": []}],
        },
    }
