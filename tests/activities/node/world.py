"""A cluster with one claim and its node, for tests to change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from activities.ec2.errors import EC2Error
from activities.ec2.rate_limits import Throttling
from activities.kubernetes.resources import NODECLAIMS, NODES, PODS
from tenon.ec2.families.cluster import Cluster
from tenon.messages.base import ClaimRef
from tenon.messages.launch import Instance
from tests.activities.node.fake_kube import START, Clock, FakeKube, Recorder, stamp

PROVIDER_ID = "aws:///us-west-2a/i-1"
REF = ClaimRef(cluster="sandbox", name="web-1", uid="uid-web-1")
FINALIZER = "karpenter.sh/termination"
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def condition(type_: str, status: str = "True", reason: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason or type_, "lastTransitionTime": stamp(START)}


def claim(**spec: Any) -> dict[str, Any]:
    """A launched claim."""
    return {
        "metadata": {
            "name": REF.name,
            "uid": REF.uid,
            "generation": 1,
            "labels": {"karpenter.sh/nodepool": "web", "team": "a"},
            "annotations": {"karpenter.sh/nodepool-hash": "7", "tenon.sh/planned-pods": ""},
            "finalizers": [FINALIZER],
        },
        "spec": {"nodeClassRef": {"name": "default"}, "expireAfter": "720h", "requirements": [], **spec},
        "status": {"providerID": PROVIDER_ID, "conditions": [condition("Launched")]},
    }


def node(*taints: dict[str, str], **labels: str) -> dict[str, Any]:
    """A Node that has joined and is Ready."""
    return {
        "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1", **labels}},
        "spec": {"providerID": PROVIDER_ID, "taints": list(taints)},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        },
    }


def live(body: dict[str, Any]) -> dict[str, Any]:
    """The object as it is once it is registered and initialized."""
    body["metadata"].setdefault("finalizers", [FINALIZER])
    if "providerID" in body["spec"]:
        body["metadata"]["labels"] |= {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    else:
        body["status"]["nodeName"] = "node-1"
        body["status"]["conditions"] = [condition(item) for item in ("Launched", "Registered", "Initialized", "Ready")]
    return body


def pod(name: str, *, owner: str = "ReplicaSet", on: str = "node-1", **spec: Any) -> dict[str, Any]:
    """A running pod of a controller."""
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": name.split("-", maxsplit=1)[0]},
            "ownerReferences": [{"kind": owner, "name": "o", "uid": "o"}] if owner else [],
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}], **spec},
        "status": {"phase": "Running", "startTime": stamp(START)},
    }
    if on:
        body["spec"]["nodeName"] = on
    return body


@dataclass
class World:
    """The cluster, its clock and its events."""

    clock: Clock = field(default_factory=Clock)
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.kube: Any = FakeKube(self.clock)

    def put_live(self, **spec: Any) -> World:
        self.kube.add(NODECLAIMS, live(claim(**spec)))
        self.kube.add(NODES, live(node()))
        return self

    def put_pods(self, *bodies: dict[str, Any]) -> World:
        for body in bodies:
            self.kube.add(PODS, body)
        return self

    @property
    def claim(self) -> dict[str, Any]:
        result: dict[str, Any] = self.kube.objects[("nodeclaims", "", REF.name)]
        return result

    @property
    def node(self) -> dict[str, Any]:
        result: dict[str, Any] = self.kube.objects[("nodes", "", "node-1")]
        return result

    def status_of(self, type_: str) -> tuple[str, str]:
        """(status, reason) of a condition of the claim."""
        for condition in self.claim["status"]["conditions"]:
            if condition["type"] == type_:
                return condition["status"], condition["reason"]
        return "", ""


class Ec2:
    """One instance that runs; whatever would buy or end something fails the test."""

    cluster = Cluster("sandbox", "us-west-2")

    def __init__(self) -> None:
        self.names_given: list[tuple[str, str, str]] = []
        self.refuses = False
        self.shows = True
        self.ended: tuple[str, str] | None = None
        """Code and message of EC2's StateReason, if the instance has ended."""

    def why_ended(self, instance_id: str) -> tuple[str, str] | None:
        return self.ended

    def throttling(self, calls: Iterable[str]) -> Throttling | None:
        return None

    def price(self, *_: str) -> float:
        return 0.1

    def instance_state(self, instance_id: str) -> str | None:
        assert instance_id == "i-1"
        return "running"

    def describe_instance(self, instance_id: str) -> Instance:
        return Instance(
            id=instance_id,
            provider_id=PROVIDER_ID,
            instance_type="m5.large",
            zone="us-west-2a",
            capacity_type="on-demand",
            image_id="ami-1",
            price=0.1,
        )

    def name_instance(self, instance_id: str, claim_name: str, node_name: str) -> bool:
        if self.refuses:
            raise EC2Error("UnauthorizedOperation", "no tags today", retryable=False)
        self.names_given.append((instance_id, claim_name, node_name))
        return self.shows
