"""Restarts Deployments whose pods must not stop before their successors are ready, and looks for these (WSH-16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import ACCESS_REVIEWS, DEPLOYMENTS
from activities.node.nodes import Budgets, pods_on
from tenon.disruption.commands.surging import (
    deployment_key,
    is_replacing_pods,
    is_rolled_out,
    needs_surge,
    restart,
    why_cannot_surge,
)
from tenon.kube.pod_disruption_budgets import eviction_refusal


class RolloutRestarter:
    """What the steps of one command do about the Deployments whose pods start first."""

    def __init__(self, kube: Kube, now: Callable[[], datetime]) -> None:
        self._kube = kube
        self._now = now

    async def why_not(self, deployments: Sequence[str]) -> str:
        """Return why one of these Deployments (``namespace/name``) cannot start its new pod first; empty if all can."""
        for key in deployments:
            namespace, name = key.split("/", 1)
            deployment = await self._kube.get(DEPLOYMENTS, name, namespace)
            if deployment is None:
                continue
            if why := why_cannot_surge(deployment):
                return f"Deployment {key} cannot start its new pod first: {why}"
            if not await self._may_restart(namespace, name):
                return f"Tenon may not restart Deployment {key}: give it the right to patch deployments"
        return ""

    async def _may_restart(self, namespace: str, name: str) -> bool:
        attributes = {
            "group": DEPLOYMENTS.group,
            "resource": DEPLOYMENTS.plural,
            "verb": "patch",
            "namespace": namespace,
            "name": name,
        }
        answer = await self._kube.create(ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes}})
        return bool((answer.get("status") or {}).get("allowed"))

    async def surge(self, deployments: Sequence[str], nodes: Iterable[str], command: str) -> str:
        """Restart the Deployments that need it. Return what to wait for; empty if all new pods are ready.

        Args:
            deployments: the Deployments (``namespace/name``) whose pods ask for it.
            nodes: the Nodes that are about to leave.
            command: the ID of the command. The same command restarts each once, however often it asks. It waits for
                a rollout in progress, such as another command's, which moves the pods too.
        """
        waiting = ""
        moving = await self._moving(nodes)
        for key in deployments:
            namespace, name = key.split("/", 1)
            deployment = await self._kube.get(DEPLOYMENTS, name, namespace)
            if deployment is None:
                continue
            patch = restart(deployment, command, self._now())
            if patch and not (key in moving and needs_surge(deployment, blocked=moving[key])):
                continue
            if patch and not is_replacing_pods(deployment):
                deployment = await self._kube.patch(DEPLOYMENTS, name, patch, namespace=namespace)
            if deployment is not None and not is_rolled_out(deployment):
                waiting = waiting or f"Deployment {key} has not replaced its pods"
        return waiting

    async def _moving(self, nodes: Iterable[str]) -> dict[str, bool]:
        """Return the Deployments with a pod on the Nodes that asks for it, and whether a budget protects that pod."""
        budgets = Budgets(self._kube)
        is_moving: dict[str, bool] = {}
        for node in nodes:
            for pod in await pods_on(self._kube, node):
                if not pod.surges or pod.deleting:
                    continue
                key = deployment_key(pod.pod)
                is_moving[key] = is_moving.get(key, False) or bool(eviction_refusal(pod, await budgets.selecting(pod)))
        return is_moving
