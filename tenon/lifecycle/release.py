"""Who still keeps an object that Tenon has let go of, and how a person ends that."""

from __future__ import annotations

import json
from typing import Any

from tenon.apis import labels
from tenon.kube.structs import Object

OF_KUBERNETES = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers that Kubernetes' own garbage collection takes off by itself."""


def without_finalizer(obj: Object) -> dict[str, Any]:
    """The change that takes Tenon's own finalizer off; empty when it is not there."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if labels.TERMINATION_FINALIZER not in finalizers:
        return {}
    return {"metadata": {"finalizers": [one for one in finalizers if one != labels.TERMINATION_FINALIZER]}}


def foreign_finalizers(obj: Object) -> list[str]:
    """The finalizers that neither Tenon nor Kubernetes takes off."""
    finalizers = obj["metadata"].get("finalizers") or ()
    return [one for one in finalizers if one != labels.TERMINATION_FINALIZER and one not in OF_KUBERNETES]


def held_sentence(obj: Object) -> str:
    """Which finalizers keep the object, and the command that takes them off without their owner."""
    kind, metadata = obj["kind"], obj["metadata"]
    foreign = foreign_finalizers(obj)
    stays = [one for one in metadata.get("finalizers") or () if one not in foreign]
    patch = json.dumps({"metadata": {"finalizers": stays or None}})
    which = "finalizer" if len(foreign) == 1 else "finalizers"
    return (
        f"{which} {', '.join(foreign)} keeps {kind} {metadata['name']}: its owner must remove it, "
        f"or: kubectl patch {kind.lower()} {metadata['name']} --type=merge -p '{patch}'"
    )
