"""Deployments whose pods are processes of this machine: the part of a kubelet that starts and stops containers.

The Deployment controller, the scheduler and the API server are real, and KWOK says that the pods run. A finalizer keeps
a deleted pod until its process has ended, as a kubelet does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS, NAMESPACES, PODS
from tests.e2e.pools import Object, leaving
from tests.workflows.waiting import until

FINALIZER = "e2e.example.com/process"
LOOK_SECONDS = 0.2


@dataclass
class Deployed:
    """A Deployment of at most one pod, and the process of that pod."""

    kube: Kube
    namespace: str
    name: str
    start: Callable[[], None]
    """Starts the process. Blocks until it is ready."""
    stop: Callable[[], object]
    """Ends it gracefully. Blocks."""
    works: bool = True
    """False: the container crashes at once, whatever KWOK says of its pod."""
    starts: int = 0
    _process_of: str = field(default="", init=False)
    """UID of the pod whose process runs."""

    async def create(self, replicas: int, **variables: str) -> None:
        """Create the Deployment and its namespace."""
        if await self.kube.get(NAMESPACES, self.namespace) is None:
            await self.kube.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        labels = {"app.kubernetes.io/name": self.name}
        container = {
            "name": "controller",
            "image": self.name,
            "env": [{"name": key, "value": value} for key, value in variables.items()],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec = {
            "nodeSelector": {"sandbox.tenon.sh/role": "system"},
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            "containers": [container],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        }
        template = {"metadata": {"labels": labels, "finalizers": [FINALIZER]}, "spec": spec}
        body = {
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        }
        await self.kube.create(DEPLOYMENTS, body, self.namespace)

    async def read(self) -> Object:
        """The Deployment."""
        deployment = await self.kube.get(DEPLOYMENTS, self.name, self.namespace)
        assert deployment is not None
        return deployment

    async def pods(self) -> list[Object]:
        """Its pods."""
        selector = f"app.kubernetes.io/name={self.name}"
        return await self.kube.list(PODS, namespace=self.namespace, label_selector=selector)

    async def reconcile(self) -> None:
        """Start the process of a pod that runs, and end that of a pod that is being deleted."""
        for pod in await self.pods():
            uid, finalizers = pod["metadata"]["uid"], pod["metadata"].get("finalizers") or []
            if leaving(pod) and FINALIZER in finalizers:
                if self._process_of == uid:
                    await asyncio.to_thread(self.stop)
                    self._process_of = ""
                rest = [item for item in finalizers if item != FINALIZER]
                patch = {"metadata": {"finalizers": rest}}
                await self.kube.patch(PODS, pod["metadata"]["name"], patch, namespace=self.namespace)
            elif not leaving(pod) and pod["status"].get("phase") == "Running" and not self._process_of and self.works:
                self._process_of = uid
                self.starts += 1
                await asyncio.to_thread(self.start)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Act as its kubelet; in the end the Deployment and its pods are gone."""
        acting = asyncio.create_task(self._act())
        try:
            yield
        finally:
            await self.kube.delete(DEPLOYMENTS, self.name, namespace=self.namespace, propagation="Background")

            async def gone() -> bool:
                if acting.done():
                    await acting
                return not await self.pods()

            await until(gone)
            acting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await acting

    async def _act(self) -> None:
        while True:
            await self.reconcile()
            await asyncio.sleep(LOOK_SECONDS)
