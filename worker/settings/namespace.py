"""Where this process runs, as far as Kubernetes tells it."""

from __future__ import annotations

from pathlib import Path

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
ELSEWHERE = "tenon"
"""The namespace that is meant outside a pod."""


def own_namespace() -> str:
    """The namespace of the pod that this process runs in; ``tenon`` where it runs in none."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ELSEWHERE
