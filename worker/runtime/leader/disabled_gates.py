"""Warns of objects that have no effect because the feature gate for them is off."""

from __future__ import annotations

import asyncio
import json

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import CAPACITYBUFFERS, NODEOVERLAYS, Resource
from tenon.provisioning.gates import FeatureGates

settings_log = loggers.SETTINGS
RETRY = 30.0
"""Seconds until the API server is asked again if it did not answer."""


async def warn_of_disabled_gates(kube: Kube, gates: FeatureGates) -> None:
    """Send one small request for each gate that is off; skip kinds that the cluster does not serve or allow."""
    for gate, on, resource in (
        ("NodeOverlay", gates.node_overlay, NODEOVERLAYS),
        ("CapacityBuffer", gates.capacity_buffer, CAPACITYBUFFERS),
    ):
        if not on and await _has_objects(kube, resource):
            settings_log.warning(
                "Objects have no effect because their feature gate is off: change the setting to use them",
                extra={"kind": resource.kind, "setting": f"FEATURE_GATES={gate}=true"},
            )


async def _has_objects(kube: Kube, resource: Resource) -> bool:
    """Whether the cluster has an object of the kind. False if it does not serve the kind or allow to read it."""
    while True:
        try:
            page = json.loads(await kube.request("GET", resource.path(), query={"limit": "1"}))
            return bool(page.get("items"))
        except ApiError as error:
            if not error.is_transient:
                return False
            await asyncio.sleep(RETRY)
