"""Renames the labels, annotations and taints that pods and nodes carried before v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.conversion import PROVISIONER_NAME, renamed

KEPT_FROM_DISRUPTION = (labels.DO_NOT_EVICT, labels.DO_NOT_CONSOLIDATE)
OLD_TAINT = ("karpenter.sh/disruption", "disrupting", "NoSchedule")


def convert_node(manifest: Mapping[str, Any]) -> tuple[JsonObject, list[str]]:
    """Convert a Node to the current labels, annotations and taints."""
    notes: list[str] = []
    metadata = _metadata(manifest.get("metadata"), notes)
    spec = manifest.get("spec")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(taints, list):
        spec = {**spec, "taints": [_taint(taint, notes) for taint in taints]}
    return {**manifest, "metadata": metadata, **({"spec": spec} if spec is not None else {})}, notes


def convert_pod(manifest: Mapping[str, Any]) -> tuple[JsonObject, list[str]]:
    """Convert a Pod, or a pod template, to the current annotations and node selectors."""
    notes: list[str] = []
    body = {**manifest, "metadata": _metadata(manifest.get("metadata"), notes)}
    if not body["metadata"]:
        del body["metadata"]
    spec = manifest.get("spec")
    if isinstance(spec, dict):
        body["spec"] = _pod_spec(spec, notes)
    return body, notes


def _metadata(raw_metadata: Any, notes: list[str]) -> Any:
    if not isinstance(raw_metadata, dict):
        return raw_metadata
    renamed_metadata = dict(raw_metadata)
    if isinstance(raw_metadata.get("labels"), dict) and PROVISIONER_NAME in raw_metadata["labels"]:
        renamed_metadata["labels"] = renamed(raw_metadata["labels"])
        notes.append(f"label {PROVISIONER_NAME} is {labels.NODEPOOL} now")
    annotations = raw_metadata.get("annotations")
    for key in KEPT_FROM_DISRUPTION:
        if isinstance(annotations, dict) and key in annotations:
            value = annotations[key]
            annotations = {k: v for k, v in annotations.items() if k != key}
            annotations.setdefault(labels.DO_NOT_DISRUPT, value)
            renamed_metadata["annotations"] = annotations
            notes.append(f"annotation {key} is {labels.DO_NOT_DISRUPT} now")
    return renamed_metadata


def _taint(taint: Any, notes: list[str]) -> Any:
    if isinstance(taint, dict) and (taint.get("key"), taint.get("value"), taint.get("effect")) == OLD_TAINT:
        key, effect = labels.DISRUPTED_TAINT
        notes.append(f"taint {OLD_TAINT[0]}={OLD_TAINT[1]} is {key} now")
        return {"key": key, "effect": effect}
    return taint


def _pod_spec(spec: JsonObject, notes: list[str]) -> JsonObject:
    renamed_spec = dict(spec)
    changed = False
    if isinstance(spec.get("nodeSelector"), dict) and PROVISIONER_NAME in spec["nodeSelector"]:
        renamed_spec["nodeSelector"] = renamed(spec["nodeSelector"])
        changed = True
    if PROVISIONER_NAME in _keys(spec.get("affinity")):
        renamed_spec["affinity"] = _with_keys_renamed(spec["affinity"])
        changed = True
    if changed:
        notes.append(f"it selects nodes by {labels.NODEPOOL} now, not by {PROVISIONER_NAME}")
    return renamed_spec


def _keys(value: Any) -> set[str]:
    """Return the values of every field ``key``, at any depth."""
    if isinstance(value, list):
        return {key for item in value for key in _keys(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["key"]} if isinstance(value.get("key"), str) else set()
    return own.union(*(_keys(item) for item in value.values()))


def _with_keys_renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_keys_renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed_values = {name: _with_keys_renamed(item) for name, item in value.items()}
    return (
        {**renamed_values, "key": labels.NODEPOOL} if renamed_values.get("key") == PROVISIONER_NAME else renamed_values
    )
