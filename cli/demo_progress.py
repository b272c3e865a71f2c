"""Watches the sandbox's cluster and prints each new observation once, with the time since the scene began."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rich.console import Console
from temporalio.client import Client

from activities.kubernetes import resources
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.nodeclaim import DRAINED
from tenon.errors import TenonError
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.money import per_hour
from tenon.node.state import NodeState
from tenon.sentences import counted
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

PAUSE = 0.25
APP = "inflate"
"""The Deployment that the demo scales."""
PODS = 5


class NotSeenError(TenonError):
    """A step of the demonstration did not happen in time."""


class DemoProgress:
    """Prints each observation once and records its time."""

    def __init__(self, console: Console, kube: Kube, temporal: Client, cluster: str, ec2: Callable[[str], str]) -> None:
        """``ec2`` returns the state of an instance by its id."""
        self._console = console
        self._kube = kube
        self._temporal = temporal
        self._cluster = cluster
        self._ec2 = ec2
        self._reported_at: dict[str, float] = {}
        self._began = time.monotonic()
        self.claims: dict[str, NodeState] = {}
        self.scenes = 0
        """How many scenes have begun."""

    def scene(self, title: str) -> None:
        """Begin a scene and restart the clock."""
        self._began = time.monotonic()
        self.scenes += 1
        self._console.rule(f"[bold]{title}")

    def report(self, key: str, text: str, style: str = "") -> None:
        """Print an observation the first time it occurs."""
        if key not in self._reported_at:
            self._reported_at[key] = time.monotonic()
            mark = f"[{style}]" if style else ""
            self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {mark}{text}")

    def seconds(self, since: str, till: str) -> float:
        """Seconds between two observations."""
        return self._reported_at[till] - self._reported_at[since]

    async def until(self, subject: str, is_reached: Callable[[], Awaitable[bool]], *, within: float = 180.0) -> None:
        """Poll the cluster until ``is_reached`` returns True.

        Raises:
            NotSeenError: ``is_reached`` did not return True in time.
        """
        deadline = time.monotonic() + within
        while True:
            await self.observe()
            if await is_reached():
                return
            if time.monotonic() > deadline:
                raise NotSeenError(f"not seen within {within:.0f} s: {subject}")
            await asyncio.sleep(PAUSE)

    async def observe(self) -> None:
        """Print what is new about NodeClaims and their nodes."""
        nodes = {node["metadata"]["name"]: node for node in await self._kube.list(NODES)}
        for claim in await self._kube.list(NODECLAIMS):
            await self._observe(ClaimRecord.of(claim), nodes)

    async def _observe(self, claim: ClaimRecord, nodes: dict[str, JsonObject]) -> None:
        name, node_name, provider_id = claim.name, claim.node_name, claim.provider_id
        options = next(
            (len(r.get("values", [])) for r in claim.spec["requirements"] if r["key"] == labels.INSTANCE_TYPE), 0
        )
        self.report(
            f"{name} created",
            f"packing computed: NodeClaim [bold]{name}[/] for {counted(len(claim.planned_pods), 'pod')}, "
            f"{options} instance types to choose from",
        )
        if claim.launched:
            await self._report_launch(name)
        joined = next((n for n, node in nodes.items() if node["spec"].get("providerID") == provider_id), "")
        if provider_id and joined:
            self.report(f"{name} joined", f"node joined: {joined}")
        if claim.registered:
            self.report(f"{name} registered", f"registered: {node_name}")
        if claim.initialized:
            self.report(f"{name} initialized", f"initialized: {node_name}", "green")
        node = nodes.get(node_name)
        if node is not None and any(t["key"] == labels.DISRUPTED_TAINT[0] for t in node["spec"].get("taints", [])):
            self.report(f"{name} cordoned", f"cordoned: {node_name}", "yellow")
        if claim.is_true(DRAINED):
            self.report(f"{name} drained", f"drained: {node_name}", "yellow")
        if claim.terminating:
            self.report(f"{name} terminating", f"instance terminating: {provider_id}", "yellow")

    async def _report_launch(self, name: str) -> None:
        if f"{name} launched" in self._reported_at:
            return
        handle = self._temporal.get_workflow_handle_for(NodeClaimWorkflow.run, names.nodeclaim_id(self._cluster, name))
        state = await handle.query(NodeClaimWorkflow.status)
        if state.instance is None:
            return
        self.claims[name] = state
        i = state.instance
        self.report(
            f"{name} launched",
            f"EC2 instance launched: [bold]{i.id}[/] {i.instance_type}, {i.zone}, {i.capacity_type}, "
            f"{per_hour(i.price)}",
        )

    async def pods(self, app: str) -> list[JsonObject]:
        """Return the pods of a Deployment that are not being deleted."""
        pods = await self._kube.list(resources.PODS, namespace="default", label_selector=f"app={app}")
        return [pod for pod in pods if not object_json.is_deleting(pod)]

    async def all_running(self, app: str, count: int) -> bool:
        """True if the Deployment has exactly ``count`` pods and all are Running."""
        pods = await self.pods(app)
        waiting = sum(1 for pod in pods if pod.get("status", {}).get("phase") == "Pending")
        if waiting:
            self.report(f"{app} pending {self._began}", f"{counted(waiting, 'pod')} Pending")
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return len(pods) == count == len(running)

    async def gone(self, claim: str) -> bool:
        """True if the NodeClaim does not exist and EC2 reports its instance as terminated."""
        if await self._kube.get(NODECLAIMS, claim) is not None:
            return False
        instance = self.claims[claim].instance
        return instance is not None and self._ec2(instance.id) in ("terminated", "gone")
