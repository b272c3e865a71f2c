"""Finds the Deployments of Karpenter and of Tenon, and scales them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import CONFIGMAPS, DEPLOYMENTS, PODS
from tenon.apis.json_object import JsonObject, field_at
from tenon.errors import TenonError
from tenon.kube import object_json
from worker.settings.container_variables import ConfigMaps, Variables, config_map_names, variables_of

KARPENTER, TENON = "Karpenter", "Tenon"
Version = tuple[int, int]
"""Major and minor."""
APP = "app.kubernetes.io/name"
VERSION = "app.kubernetes.io/version"
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.\d+")
SHADOW = "shadow"
"""The container of a `tenon shadow` that the chart installs. It never leads, and has the labels of Tenon's own pods."""


class DeploymentError(TenonError):
    """A Deployment cannot be found, or there are several. The message is one sentence that says what to do."""

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        super().__init__(message)
        self.is_missing = is_missing
        """The cluster has none, and none is named."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The Deployment of a controller."""

    title: str
    """Karpenter or Tenon."""
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def read(self, kube: Kube) -> JsonObject:
        """Return the Deployment.

        Raises:
            DeploymentError: it does not exist.
        """
        deployment = await kube.get(DEPLOYMENTS, self.name, self.namespace)
        if deployment is None:
            raise DeploymentError(f"The Deployment {self} of {self.title} does not exist (any more).")
        return deployment

    async def pods(self, kube: Kube, deployment: JsonObject) -> list[JsonObject]:
        """Return the pods of the Deployment that have not ended, also those that are being deleted."""
        matched = field_at(deployment, "spec", "selector", "matchLabels") or {}
        selector = ",".join(f"{key}={value}" for key, value in matched.items())
        pods = await kube.list(PODS, namespace=self.namespace, label_selector=selector)
        pods = [pod for pod in pods if not _is_shadow(field_at(pod, "spec", "containers"))]
        return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]

    async def variables(self, kube: Kube) -> Variables:
        """Return the variables and flags of the controller, with those of ConfigMaps. Secrets are not read.

        Raises:
            DeploymentError: the Deployment does not exist.
        """
        deployment = await self.read(kube)
        return variables_of(deployment, await self.config_maps(kube, deployment))

    async def config_maps(self, kube: Kube, deployment: JsonObject) -> ConfigMaps:
        """Return the ConfigMaps that the Deployment takes variables from, without those that may not be read."""
        config_maps = {}
        for name in sorted(config_map_names(deployment)):
            with suppress(ForbiddenError):
                if (config_map := await kube.get(CONFIGMAPS, name, self.namespace)) is not None:
                    config_maps[name] = config_map.get("data") or {}
        return config_maps

    async def scale(self, kube: Kube, replicas: int) -> None:
        """Set the number of replicas.

        Raises:
            DeploymentError: the Deployment does not exist.
        """
        body = {"spec": {"replicas": replicas}}
        if await kube.patch(DEPLOYMENTS, self.name, body, namespace=self.namespace) is None:
            raise DeploymentError(f"The Deployment {self} of {self.title} does not exist (any more).")


def replicas_of(deployment: JsonObject) -> int:
    """The replicas that a Deployment asks for. The API server always states them."""
    return int((deployment.get("spec") or {}).get("replicas", 1))


async def karpenters(kube: Kube, name: str | None) -> Workload:
    """Return Karpenter's Deployment: the one that ``name`` (NAMESPACE/NAME) names, else the only one of the cluster.

    Raises:
        DeploymentError: there is none, or there are several.
    """
    return await _workload(kube, KARPENTER, name, "--karpenter", is_karpenter)


async def tenons(kube: Kube, name: str | None) -> Workload:
    """Like `karpenters`, for Tenon's."""
    return await _workload(kube, TENON, name, "--tenon", is_tenon)


def is_tenon(deployment: JsonObject) -> bool:
    """Whether a Deployment is Tenon's, by the label that the chart and deploy/deployment.yaml give it."""
    return object_json.labels(deployment).get(APP) == "tenon" and not _is_shadow(containers(deployment))


def is_karpenter(deployment: JsonObject) -> bool:
    """Whether a Deployment is Karpenter's: by its label, else by its name and what its container is called."""
    if is_tenon(deployment):
        return False
    names = {str(container.get("name")) for container in containers(deployment)}
    is_named = deployment["metadata"]["name"] == "karpenter" and bool(names & {"controller", "karpenter"})
    return object_json.labels(deployment).get(APP) == "karpenter" or is_named


def version_of(deployment: JsonObject) -> Version | None:
    """The version of a controller, by the tag of its image, else by its label; None if neither is a version."""
    images = [
        str(item.get("image") or "")
        for item in containers(deployment)
        if item.get("name") in ("controller", "karpenter")
    ]
    tags = [image.partition("@")[0].rpartition("/")[2].partition(":")[2] for image in images]
    for text in (*tags, object_json.labels(deployment).get(VERSION) or ""):
        if match := _VERSION.match(text):
            return int(match[1]), int(match[2])
    return None


def _is_shadow(pod_containers: list[JsonObject] | None) -> bool:
    return any(container.get("name") == SHADOW for container in pod_containers or ())


def containers(deployment: JsonObject) -> list[JsonObject]:
    """The containers of a Deployment's pods."""
    return field_at(deployment, "spec", "template", "spec", "containers") or []


async def _workload(
    kube: Kube, title: str, name: str | None, option: str, matches: Callable[[JsonObject], bool]
) -> Workload:
    if name is not None:
        namespace, slash, short = name.partition("/")
        if not (slash and namespace and short):
            raise DeploymentError(f"{option} {name!r} is not NAMESPACE/NAME, such as kube-system/karpenter.")
        workload = Workload(title, namespace, short)
        await workload.read(kube)
        return workload
    candidates = [item for item in await kube.list(DEPLOYMENTS) if matches(item)]
    workloads = sorted(
        (Workload(title, item["metadata"]["namespace"], item["metadata"]["name"]) for item in candidates), key=str
    )
    if not workloads:
        sentence = f"No Deployment of the cluster looks like {title}'s: name it with {option} NAMESPACE/NAME."
        raise DeploymentError(sentence, is_missing=True)
    if len(workloads) > 1:
        names = ", ".join(map(str, workloads))
        raise DeploymentError(f"Several Deployments look like {title}'s ({names}): name one with {option}.")
    return workloads[0]
