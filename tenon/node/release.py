"""Tenon's finalizer, and the finalizers of others that keep an object after Tenon released it."""

from __future__ import annotations

import json
from typing import Any

from tenon.apis import labels
from tenon.kube import object_json
from tenon.kube.structs import Object
from tenon.sentences import plural

OF_KUBERNETES = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers that Kubernetes' garbage collection removes."""


def with_finalizer(obj: Object) -> dict[str, Any]:
    """Return the patch that adds Tenon's finalizer, so that a deletion waits until the instance is gone.

    It is empty if the object has it, or is being deleted: the API server then accepts no finalizer.
    """
    finalizers = object_json.finalizers(obj)
    if labels.TERMINATION_FINALIZER in finalizers or object_json.is_deleting(obj):
        return {}
    return {"metadata": {"finalizers": [*finalizers, labels.TERMINATION_FINALIZER]}}


def without_finalizer(obj: Object) -> dict[str, Any]:
    """Return the patch that removes Tenon's own finalizer; empty if the object does not have it."""
    finalizers = object_json.finalizers(obj)
    if labels.TERMINATION_FINALIZER not in finalizers:
        return {}
    return {
        "metadata": {"finalizers": [finalizer for finalizer in finalizers if finalizer != labels.TERMINATION_FINALIZER]}
    }


def foreign_finalizers(obj: Object) -> list[str]:
    """Return the finalizers that neither Tenon nor Kubernetes removes."""
    finalizers = object_json.finalizers(obj)
    return [
        finalizer
        for finalizer in finalizers
        if finalizer != labels.TERMINATION_FINALIZER and finalizer not in OF_KUBERNETES
    ]


def finalizer_message(obj: Object) -> str:
    """Name the finalizers that keep the object, and the command that removes them without their owner."""
    kind, metadata = obj["kind"], obj["metadata"]
    foreign = foreign_finalizers(obj)
    stays = [finalizer for finalizer in object_json.finalizers(obj) if finalizer not in foreign]
    patch = json.dumps({"metadata": {"finalizers": stays or None}})
    finalizers = f"{plural(len(foreign), 'finalizer')} {', '.join(foreign)}"
    return (
        f"{finalizers} keeps {kind} {metadata['name']}: its owner must remove it, "
        f"or: kubectl patch {kind.lower()} {metadata['name']} --type=merge -p '{patch}'"
    )
