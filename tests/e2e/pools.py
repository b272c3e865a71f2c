"""A NodePool of one test's own: what is in it, and manifests of pods that go nowhere else."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import (
    DAEMONSETS,
    DEPLOYMENTS,
    EC2NODECLASSES,
    EVENTS,
    NODECLAIMS,
    NODEPOOLS,
    NODES,
    PDBS,
    PODS,
    Resource,
)
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.workflows.waiting import until

Object = dict[str, Any]
KEY = "e2e.example.com/pool"
"""Label and taint that keep the pods of one test on the nodes of that test."""
NAMESPACE = "default"
WITHIN = 180.0
"""Bounds what would otherwise hang, on a machine that is busy with other tests too."""
SMALL = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"]}]
"""Types with room for one pod of 1 CPU, next to what the system takes."""
ROOMY = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]}]
"""Types with room for three such pods. One that the first plan missed fits on its node from the launch on; until then
the claim has no room for more than its own pods, and a second plan buys another node."""


def condition(obj: Object | None, kind: str) -> Object:
    """A condition of an object; empty when it has none of this type."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})


def leaving(obj: Object) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def _brief(pods: list[Object]) -> str:
    """Where pods are and what is said of them, for the reader of a failed test."""
    lines = []
    for pod in pods:
        texts = [f"{c['type']}={c['status']} {c.get('message', '')}" for c in pod["status"].get("conditions") or []]
        where = pod["spec"].get("nodeName", "nowhere")
        marks = pod["metadata"].get("annotations") or {}
        lines.append(f"{pod['metadata']['name']} ({pod['status']['phase']} on {where}; {marks}; {texts})")
    return "\n".join(lines) or "none"


@dataclass
class Pool:
    """A NodePool with an EC2NodeClass of the same name."""

    kube: Kube
    sandbox: Sandbox
    name: str
    created_objects: list[tuple[Resource, str]] = field(default_factory=list)

    # --- manifests ---

    def node_class(self, **spec: Any) -> Object:
        """The EC2NodeClass."""
        discovery = [{"tags": {"karpenter.sh/discovery": self.sandbox.cluster_name}}]
        return {
            "metadata": {"name": self.name},
            "spec": {
                "role": "KarpenterNodeRole-sandbox",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": discovery,
                "securityGroupSelectorTerms": discovery,
                "tags": {"team": "e2e"},
                **spec,
            },
        }

    def node_pool(
        self,
        *,
        consolidate_after: str,
        requirements: list[Object],
        template: Object,
        budgets: list[Object],
        capacity_types: Sequence[str] = ("spot", "on-demand"),
    ) -> Object:
        """The NodePool, tainted and labelled with its name."""
        return {
            "metadata": {"name": self.name},
            "spec": {
                "template": {
                    "metadata": {"labels": {KEY: self.name}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": self.name},
                        "taints": [{"key": KEY, "value": self.name, "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
                            {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [*capacity_types]},
                            {
                                "key": "karpenter.k8s.aws/instance-category",
                                "operator": "In",
                                "values": ["c", "m", "r"],
                            },
                            *requirements,
                        ],
                        **template,
                    },
                },
                "disruption": {
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": consolidate_after,
                    "budgets": budgets,
                },
            },
        }

    def pod_spec(self, cpu: str = "1", **more: Any) -> Object:
        """A pod's spec that only this pool's nodes can run."""
        return {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {KEY: self.name},
            "tolerations": [{"key": KEY, "operator": "Equal", "value": self.name}],
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}],
            **more,
        }

    def _labels(self, app: str) -> dict[str, str]:
        return {KEY: self.name, "app": f"{self.name}-{app}"}

    # --- what a user does ---

    async def deploy(
        self, replicas: int, app: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """Create a Deployment. ``annotations``: those of its pods."""
        metadata = {"labels": self._labels(app), "annotations": annotations or {}}
        template = {"metadata": metadata, "spec": self.pod_spec(**spec)}
        body = {
            "metadata": {"name": f"{self.name}-{app}", "labels": {KEY: self.name}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": self._labels(app)}, "template": template},
        }
        await self.kube.create(DEPLOYMENTS, body, NAMESPACE)

    async def daemon(self, app: str = "agent", **spec: Any) -> None:
        """Create a DaemonSet on the pool's nodes."""
        template = {"metadata": {"labels": self._labels(app)}, "spec": self.pod_spec(**spec)}
        body = {
            "metadata": {"name": f"{self.name}-{app}", "labels": {KEY: self.name}},
            "spec": {"selector": {"matchLabels": self._labels(app)}, "template": template},
        }
        await self.kube.create(DAEMONSETS, body, NAMESPACE)

    async def scale(self, replicas: int, app: str = "web") -> None:
        """Scale a Deployment."""
        await self.kube.patch(DEPLOYMENTS, f"{self.name}-{app}", {"spec": {"replicas": replicas}}, namespace=NAMESPACE)

    async def pod(self, name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
        """Create a pod without owner."""
        metadata = {"name": f"{self.name}-{name}", "labels": self._labels(name), "annotations": annotations or {}}
        return await self.kube.create(PODS, {"metadata": metadata, "spec": self.pod_spec(**spec)}, NAMESPACE)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod of `pod`."""
        await self.kube.delete(PODS, f"{self.name}-{name}", namespace=NAMESPACE, grace_seconds=0)

    async def annotate_node(self, node: str, key: str, value: str | None) -> None:
        """Annotate a Node; None takes the annotation off."""
        await self.kube.patch(NODES, node, {"metadata": {"annotations": {key: value}}})

    async def protect(self, app: str, max_unavailable: int | str = 0, *, min_available: int | None = None) -> str:
        """A PodDisruptionBudget for an app's pods, which lets none of them go unless it says how many; its name.

        ``min_available`` is used instead, if given: such a budget may let pods go later.
        """
        name = f"{self.name}-{app}"
        size = {"maxUnavailable": max_unavailable} if min_available is None else {"minAvailable": min_available}
        spec = {**size, "selector": {"matchLabels": self._labels(app)}}
        await self.kube.create(PDBS, {"metadata": {"name": name, "labels": {KEY: self.name}}, "spec": spec}, NAMESPACE)
        return name

    # --- what a user sees ---

    async def pods(self, app: str = "") -> list[Object]:
        """The pool's pods, or those of one app, that are not on their way out."""
        selector = f"{KEY}={self.name}" + (f",app={self.name}-{app}" if app else "")
        pods = await self.kube.list(PODS, namespace=NAMESPACE, label_selector=selector)
        return [pod for pod in pods if not leaving(pod)]

    async def claims(self) -> list[Object]:
        """The pool's NodeClaims, by name."""
        nodeclaims = await self.kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}={self.name}")
        return sorted(nodeclaims, key=lambda claim: str(claim["metadata"]["name"]))

    async def claim(self) -> Object:
        """The pool's only NodeClaim."""
        (claim,) = await self.claims()
        return claim

    async def claim_of(self, pod: Object) -> str:
        """The name of the NodeClaim of the node that a pod runs on."""
        node = await self.kube.get(NODES, pod["spec"]["nodeName"])
        assert node is not None
        return str(next(o["name"] for o in node["metadata"]["ownerReferences"] if o["kind"] == "NodeClaim"))

    async def nodes(self) -> list[Object]:
        """The pool's Nodes."""
        return await self.kube.list(NODES, label_selector=f"{labels.NODEPOOL}={self.name}")

    async def read(self) -> Object:
        """The NodePool as the API server has it."""
        pool = await self.kube.get(NODEPOOLS, self.name)
        assert pool is not None
        return pool

    def instances(self, claim: str = "") -> list[Object]:
        """EC2 instances of the pool, or of one of its claims, whatever their state."""
        instances = self.sandbox.ec2().instances()
        key, value = (labels.TAG_NODECLAIM, claim) if claim else (labels.TAG_NODEPOOL, self.name)
        return [i for i in instances if i["tags"].get(key) == value]

    async def events(self, name: str, reason: str) -> list[Object]:
        """Events about an object."""
        return await self.kube.list(EVENTS, field_selector=f"involvedObject.name={name},reason={reason}")

    async def history(self) -> str:
        """The events about the pool's objects in order, for the reader of a test that failed."""
        names = (self.name, *{i["tags"].get(labels.TAG_NODECLAIM, self.name) for i in self.instances()})
        lines = [
            (event.get("lastTimestamp") or event["metadata"]["creationTimestamp"], event["involvedObject"], event)
            for event in await self.kube.list(EVENTS)
            if str(event["involvedObject"].get("name")).startswith(names)
        ]
        return "\n".join(
            f"{when} {about['kind']} {about['name']}: {event['reason']}: {event.get('message')}"
            for when, about, event in sorted(lines, key=lambda line: str(line[0]))
        )

    # --- waiting ---

    async def console(self) -> str:
        """What the pool's only instance writes to its console, once it has written something."""
        ec2 = self.sandbox.aws("ec2")
        output = ""

        async def written() -> bool:
            nonlocal output
            for instance in await asyncio.to_thread(self.instances):
                answer = await asyncio.to_thread(ec2.get_console_output, InstanceId=instance["id"])
                output = answer.get("Output", "")
            return bool(output)

        await until(written, within=WITHIN)
        return output

    async def running(self, count: int, app: str = "", within: float = WITHIN) -> list[Object]:
        """Wait until exactly so many pods run; the pods."""
        running_pods: list[Object] = []

        async def all_run() -> bool:
            running_pods[:] = await self.pods(app)
            return len(running_pods) == count and all(pod["status"]["phase"] == "Running" for pod in running_pods)

        try:
            await until(all_run, within=within)
        except TimeoutError:
            waiting = [pod for pod in running_pods if pod["status"]["phase"] != "Running"]
            raise AssertionError(f"{count} pods were to run: of {len(running_pods)} wait {_brief(waiting)}") from None
        return running_pods

    async def settled(self, count: int) -> list[Object]:
        """Wait until the pool has so many NodeClaims, all Ready, and no Node has a startup cordon; the claims."""
        listed: list[Object] = []

        async def ready() -> bool:
            listed[:] = await self.claims()
            if len(listed) != count or any(condition(c, "Ready").get("status") != "True" for c in listed):
                return False
            return all(
                labels.STARTUP_CORDON not in (n["metadata"].get("annotations") or {}) for n in await self.nodes()
            )

        await until(ready, within=WITHIN)
        return listed

    async def gone(self, claim: str, within: float = WITHIN) -> None:
        """Wait until a claim and its Node are gone and its instance has ended."""

        async def no_more() -> bool:
            if await self.kube.get(NODECLAIMS, claim) is not None:
                return False
            return all(i["state"] == "terminated" for i in self.instances(claim))

        await until(no_more, within=within)
        for node in await self.nodes():
            assert all(owner["name"] != claim for owner in node["metadata"].get("ownerReferences", []))

    async def seen(self, name: str, reason: str, *words: str, within: float = WITHIN) -> str:
        """Wait for an event whose message holds all these words; the message."""
        names: list[str] = []

        async def told() -> bool:
            messages = [str(event["message"]) for event in await self.events(name, reason)]
            names[:] = [message for message in messages if all(word in message for word in words)]
            return bool(names)

        await until(told, within=within)
        return names[0]


@asynccontextmanager
async def fresh_pool(
    kube: Kube,
    sandbox: Sandbox,
    *,
    consolidate_after: str = "1s",
    requirements: list[Object] | None = None,
    template: Object | None = None,
    budgets: list[Object] | None = None,
    ready: bool = True,
    replicas: int | None = None,
    capacity_types: Sequence[str] = ("spot", "on-demand"),
    **node_class: Any,
) -> AsyncIterator[Pool]:
    """A Ready pool; in the end all that is in it is taken away, and the end of its NodeClaims waited for."""
    pool = Pool(kube, sandbox, f"e2e-{uuid.uuid4().hex[:6]}")
    await kube.create(EC2NODECLASSES, pool.node_class(**node_class))
    body = pool.node_pool(
        consolidate_after=consolidate_after,
        requirements=requirements or [],
        template=template or {},
        budgets=budgets or [{"nodes": "100%"}],
        capacity_types=capacity_types,
    )
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    try:
        await kube.create(NODEPOOLS, body)
        if ready:

            async def usable() -> bool:
                return condition(await kube.get(NODEPOOLS, pool.name), "Ready").get("status") == "True"

            await until(usable, within=WITHIN)
        yield pool
    finally:
        await clear(pool)


async def clear(pool: Pool) -> None:
    """Take away all that is in a pool, and wait for the end of its NodeClaims."""
    kube, mine = pool.kube, f"{KEY}={pool.name}"
    await kube.delete(NODEPOOLS, pool.name)
    for resource in (PDBS, DEPLOYMENTS, DAEMONSETS):
        for result in await kube.list(resource, namespace=NAMESPACE, label_selector=mine):
            await kube.delete(resource, result["metadata"]["name"], namespace=NAMESPACE, propagation="Background")
    for claim in await pool.claims():
        await kube.delete(NODECLAIMS, claim["metadata"]["name"])

    async def empty() -> bool:
        pods = await kube.list(PODS, namespace=NAMESPACE, label_selector=mine)
        for pod in pods:
            await kube.delete(PODS, pod["metadata"]["name"], namespace=NAMESPACE, grace_seconds=0)
        return not pods and not await pool.claims()

    await until(empty, within=WITHIN)
    await kube.delete(EC2NODECLASSES, pool.name)

    async def class_gone() -> bool:
        return await kube.get(EC2NODECLASSES, pool.name) is None

    await until(class_gone, within=WITHIN)
