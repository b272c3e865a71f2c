"""Kinds of pods, by what happens to them when their node goes: one rule for records of the cache and for raw JSON."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from tenon.kube.owners import DAEMONSET, NODE, STATEFULSET

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def is_terminal(phase: str) -> bool:
    """Whether a pod in this phase has ended for good and holds nothing on its node."""
    return phase in ("Succeeded", "Failed")


def is_daemon(owner_kind: str) -> bool:
    """Whether a DaemonSet replaces the pod, and only on the same node."""
    return owner_kind == DAEMONSET


def is_mirror(annotations: Container[str] | Mapping[str, Any], owner_kind: str) -> bool:
    """Whether the pod only mirrors a static pod, which no API call can take off its node."""
    return MIRROR_ANNOTATION in annotations or owner_kind == NODE


def is_reschedulable(owner_kind: str, *, mirror: bool, terminal: bool, deleting: bool) -> bool:
    """Whether the pod makes its node non-empty: it runs, and would need another node.

    A terminating pod counts only in a StatefulSet, which starts the same pod again elsewhere.
    """
    if terminal or mirror or is_daemon(owner_kind):
        return False
    return not deleting or owner_kind == STATEFULSET
