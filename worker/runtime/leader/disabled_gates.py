"""Warns of objects that have no effect because the feature gate for them is off."""

from __future__ import annotations

import json

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import CAPACITYBUFFERS, NODEOVERLAYS
from tenon.provisioning.gates import FeatureGates

settings_log = loggers.SETTINGS


async def warn_of_disabled_gates(kube: Kube, gates: FeatureGates) -> None:
    """Send one small request for each gate that is off; skip kinds that the cluster does not serve or allow."""
    for gate, on, resource in (
        ("NodeOverlay", gates.node_overlay, NODEOVERLAYS),
        ("CapacityBuffer", gates.capacity_buffer, CAPACITYBUFFERS),
    ):
        if on:
            continue
        try:
            page = json.loads(await kube.request("GET", resource.path(), query={"limit": "1"}))
        except ApiError:
            continue
        if page.get("items"):
            settings_log.warning(
                "Objects have no effect because their feature gate is off: change the setting to use them",
                extra={"kind": resource.kind, "setting": f"FEATURE_GATES={gate}=true"},
            )
