"""A cluster of another Karpenter, whose objects reach the cache of ``tenon shadow`` as watches bring them."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from activities.kubernetes.client import Kube
from cli.shadowing.inputs import Inputs, read_inputs
from cli.shadowing.observed import ObservedCluster
from cli.shadowing.shadow import TICK_SECONDS, Shadow
from cli.shadowing.store import ShadowFile
from tenon.apis import labels
from tenon.kube.decode import decode_node, decode_nodeclaim
from tenon.kube.pod_decode import decode_pod
from tenon.kube.timestamps import format_instant
from tests.tenon.scheduling.builders import ordinary_entries
from tests.tenon.shadow.models import NOW, node_pool

Object = dict[str, Any]
LARGE = "m5.4xlarge"
MANIFESTS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
"""


def inputs(folder: Path) -> Inputs:
    """What the shadow reads: the NodePool of `models`, and a catalogue of four families."""
    file, catalogue = folder / "manifests.yaml", folder / "catalogue.json"
    catalogue.write_text(json.dumps({"instanceTypes": ordinary_entries()}))
    file.write_text(MANIFESTS + json.dumps(node_pool().model_dump(by_alias=True, exclude_none=True, mode="json")))
    return read_inputs([str(file)], str(catalogue), [])


class Watched:
    """The cluster, and a shadow beside it. Time moves on only in `pass_time`."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.folder = folder
        self.inputs = inputs(folder)
        kube = cast("Kube", SimpleNamespace(host="test"))
        self.observed = ObservedCluster(kube, self.inputs, lambda: self.now)
        self.shadow = self._new_shadow()
        self.version = 0

    def _new_shadow(self) -> Shadow:
        return Shadow(self.observed, self.inputs, ShadowFile(self.folder / "shadow.db"), "uid", clock=lambda: self.now)

    def begin(self) -> str:
        """Begin or go on. Returns why it does not go on."""
        return self.shadow.begin()

    def restart(self) -> str:
        """Save, and begin again as another process does."""
        self.shadow.save()
        return self.go_on()

    def go_on(self) -> str:
        """Begin again with what was saved: all pods are new."""
        self.shadow.store.close()
        for record in self.observed.cache.pods:
            self.observed._pod_changed(record.key, None, record)
        self.shadow = self._new_shadow()
        return self.begin()

    def pass_time(self, seconds: float) -> None:
        """Look every two seconds."""

        async def look() -> None:
            until = self.now + seconds
            while self.now < until:
                self.now += TICK_SECONDS
                await self.shadow.step()

        asyncio.run(look())

    def node(self, name: str, instance_type: str = LARGE, *, leaves: str = "", ready: bool = True) -> None:
        """Launch a node, or let it leave for a reason."""
        of = {
            labels.NODEPOOL: "default",
            labels.INSTANCE_TYPE: instance_type,
            labels.ZONE: "us-west-2a",
            labels.CAPACITY_TYPE: labels.ON_DEMAND,
            labels.ARCH: "amd64",
            labels.OS: "linux",
            labels.HOSTNAME: name,
        }
        kinds = ["Launched", "Registered", "Initialized"] if ready else ["Launched"]
        conditions = [_condition(kind, self.now) for kind in kinds]
        metadata = self._metadata(name, labels=of)
        if leaves:
            conditions.append({**_condition("DisruptionReason", self.now), "reason": leaves})
            metadata["deletionTimestamp"] = _text(self.now)
        room = {"cpu": "15", "memory": "56Gi", "pods": "110"}
        claim = {
            "metadata": metadata,
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
            "status": {"providerID": f"kwok://{name}", "conditions": conditions, "capacity": room, "allocatable": room},
        }
        self.observed.cache.claims.on_event(name, decode_nodeclaim(_raw(claim)))
        if ready:
            status = {"capacity": room, "allocatable": room, "conditions": [_condition("Ready", self.now)]}
            initialized = {**of, labels.REGISTERED: "true", labels.INITIALIZED: "true"}
            node = {
                "metadata": self._metadata(name, labels=initialized),
                "spec": {"providerID": f"kwok://{name}"},
                "status": status,
            }
            self.observed.cache.nodes.on_event(name, decode_node(_raw(node)))

    def no_node(self, name: str) -> None:
        """Remove a node and its NodeClaim."""
        self.observed.cache.nodes.on_event(name, None)
        self.observed.cache.claims.on_event(name, None)

    def pod(self, name: str, node: str = "", *, cpu: str = "1", ends: bool = False) -> None:
        """Create or change a pod; without a node, it is one that fits nowhere."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": True}
        metadata = self._metadata(name, labels={"app": "web"}, namespace="default", ownerReferences=[owner])
        if ends:
            metadata |= {"deletionTimestamp": _text(self.now), "deletionGracePeriodSeconds": 0}
        scheduled = {"type": "PodScheduled", "status": "True" if node else "False", "reason": "Unschedulable"}
        body = {
            "metadata": metadata,
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
                **({"nodeName": node} if node else {}),
            },
            "status": {"phase": "Running" if node else "Pending", "conditions": [scheduled]},
        }
        record = decode_pod(_raw(body))
        self.observed.cache.pods.on_event(record.key, record)

    def no_pod(self, name: str) -> None:
        """Remove a pod."""
        self.observed.cache.pods.on_event(f"default/{name}", None)

    def _metadata(self, name: str, **more: Any) -> Object:
        self.version += 1
        fields = {"name": name, "uid": f"uid-{name}", "resourceVersion": f"{self.version}"}
        return {**fields, "creationTimestamp": _text(self.now), **more}


def _raw(body: Object) -> bytes:
    return json.dumps(body).encode()


def _text(seconds: float) -> str:
    return format_instant(datetime.fromtimestamp(seconds, UTC))


def _condition(kind: str, at: float) -> Object:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": _text(at)}
