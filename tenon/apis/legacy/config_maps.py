"""Which ConfigMaps held Karpenter's settings. A module of its own, because most inputs have none to convert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis.json_object import field_at

SETTINGS = "karpenter-global-settings"
LOGGING = "config-logging"


def is_settings(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is one of the ConfigMaps that held settings."""
    cluster_name = field_at(manifest, "metadata", "name")
    return (
        manifest.get("kind") == "ConfigMap"
        and manifest.get("apiVersion") == "v1"
        and cluster_name in (SETTINGS, LOGGING)
    )
