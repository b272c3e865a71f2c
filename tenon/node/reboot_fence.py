"""The fence of a node that reboots: a taint that keeps new pods away until the machine has booted (N15-155)."""

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tenon.kube import object_json
from tenon.kube.structs import Object
from tenon.kube.taints import merged, taints_of, without_taint


def fenced(node: Object) -> dict[str, Any]:
    """Return the merge patch that fences the Node; empty if it is fenced."""
    before = taints_of(node)
    after = merged(before, [{"key": labels.REBOOTING_TAINT[0], "effect": labels.REBOOTING_TAINT[1]}])
    return {"spec": {"taints": after}} if after != before else {}


def unfenced(node: Object) -> dict[str, Any]:
    """Return the merge patch that removes the fence; empty if the Node has none."""
    before = taints_of(node)
    after = without_taint(before, labels.REBOOTING_TAINT)
    return {"spec": {"taints": after}} if after != before else {}


def issued(node: Object) -> dict[str, Any]:
    """Return the merge patch for a Node whose machine goes down: it is not initialized until it has booted."""
    if labels.INITIALIZED not in object_json.labels(node):
        return {}
    return {"metadata": {"labels": {labels.INITIALIZED: None}}}


def booted(node: Object) -> dict[str, Any]:
    """Return the merge patch for a Node whose machine has booted: without the fence, and not initialized yet."""
    return {**issued(node), **unfenced(node)}
