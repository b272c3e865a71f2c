"""Classifies pods by what happens to them when their node is removed, for cache records and raw JSON alike."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from tenon.kube.owners import DAEMONSET, NODE, STATEFULSET

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def is_terminal(phase: str) -> bool:
    """Whether a pod in this phase has terminated and no longer holds resources on its node."""
    return phase in ("Succeeded", "Failed")


def is_daemon(owner_kind: str) -> bool:
    """Whether a DaemonSet owns the pod and would replace it only on the same node."""
    return owner_kind == DAEMONSET


def is_mirror(annotations: Container[str] | Mapping[str, Any], owner_kind: str) -> bool:
    """Whether the pod mirrors a static pod, which no API call can remove from its node."""
    return MIRROR_ANNOTATION in annotations or owner_kind == NODE


def is_reschedulable(owner_kind: str, *, mirror: bool, terminal: bool, deleting: bool) -> bool:
    """Whether the pod makes its node non-empty: it is running and would need another node.

    A terminating pod counts only if it belongs to a StatefulSet, which starts the same pod again elsewhere.
    """
    if terminal or mirror or is_daemon(owner_kind):
        return False
    return not deleting or owner_kind == STATEFULSET
