"""Serves the objects of Karpenter's APIs before v1beta1 while the worker leads."""

from __future__ import annotations

import asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.global_tags import default_tags
from tenon.ec2.families import al2
from tenon.ec2.families.cluster import Cluster
from worker.cache.cluster import ClusterCache
from worker.controllers.legacy.legacy_api import LegacyApiController
from worker.legacy.watches import LegacyObjects
from worker.settings import Settings


async def serve_legacy(
    kube: Kube, recorder: EventPublisher, cache: ClusterCache, settings: Settings, cluster: Cluster
) -> None:
    """Watch and convert the old objects until cancelled."""
    defaults = defaults_of(settings, cluster.kubernetes_version)
    objects = LegacyObjects(kube, cache.changes, silence_limit=settings.watch_silence_limit.total_seconds())
    controller = LegacyApiController(kube, recorder, cache, objects, defaults)
    async with asyncio.TaskGroup() as group:
        group.create_task(objects.run(), name="legacy objects")
        group.create_task(controller.run(), name="legacy controller")


def defaults_of(settings: Settings, kubernetes_version: str) -> Defaults:
    """The defaults for AWSNodeTemplates and providers, from the settings and the cluster's version."""
    return Defaults(
        settings.default_instance_profile,
        settings.cluster_name,
        "AL2" if not kubernetes_version or al2.has_images(kubernetes_version) else "AL2023",
        default_tags(settings.default_tags),
    )
