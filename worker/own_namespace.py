"""The namespace in which this process runs."""

from __future__ import annotations

from pathlib import Path

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "tenon"
"""The namespace used outside a pod."""


def own_namespace() -> str:
    """The namespace of the pod that this process runs in, or ``tenon`` if it runs outside a pod."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return DEFAULT_NAMESPACE
