"""Moves kubelet settings from NodePools, which held them before v1, to EC2NodeClasses, which hold them now."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tenon.apis import labels
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.kubelet import with_amounts_as_texts
from tenon.apis.legacy.conversion import listed, name_of


@dataclass(slots=True)
class Moved:
    """The changed objects by name, and the notes by NodePool."""

    pools: dict[str, JsonObject] = field(default_factory=dict)
    classes: dict[str, JsonObject] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def move_kubelets(
    pools: Mapping[str, JsonObject], classes: Mapping[str, JsonObject], converted: Collection[str]
) -> Moved:
    """Give each class the kubelet settings of its pools. Pools with different settings each get their own class.

    Args:
        pools: all NodePools that are valid enough to name their class.
        classes: all EC2NodeClasses whose spec is a mapping.
        converted: the NodePools converted from older objects, with their settings in the annotation.
    """
    moved = Moved()
    by_class: dict[str, list[str]] = {}
    for name, pool in pools.items():
        by_class.setdefault(class_of(pool) or "", []).append(name)
    for class_name, names in by_class.items():
        kubelets = {name: _kubelet(pools[name]) if name in converted else None for name in names}
        if not any(kubelets.values()):
            continue
        if class_name not in classes:
            for name in names:
                if kubelets[name]:
                    moved.notes[name] = f"its kubelet settings wait for EC2NodeClass {class_name}, which is missing"
            continue
        node_class = classes[class_name]
        is_uniform = len({kubelet or "" for kubelet in kubelets.values()}) == 1
        for name in names:
            text = kubelets[name]
            if text is None:
                continue
            own = class_name if is_uniform else f"{class_name}-{name}"
            moved.classes[own] = _with_kubelet(node_class, own, text)
            moved.pools[name] = _without_annotation(pools[name], own)
            moved.notes[name] = f"its kubelet settings ({listed(json.loads(text))}) are those of EC2NodeClass {own} now"
    return moved


def class_of(pool: JsonObject) -> str | None:
    """Return the class that a NodePool names; None if the NodePool is malformed."""
    value = field_at(pool, "spec", "template", "spec", "nodeClassRef", "name")
    return value if isinstance(value, str) else None


def _kubelet(pool: JsonObject) -> str | None:
    text = (pool["metadata"].get("annotations") or {}).get(labels.V1BETA1_KUBELET)
    return str(text) if text else None


def _with_kubelet(node_class: JsonObject, name: str, text: str) -> JsonObject:
    metadata = node_class["metadata"]
    if name != name_of(node_class):
        metadata = {key: value for key, value in metadata.items() if key not in ("uid", "resourceVersion")}
    present_kubelet = node_class["spec"].get("kubelet")
    moved = with_amounts_as_texts(json.loads(text))
    kubelet = {**(present_kubelet if isinstance(present_kubelet, dict) else {}), **moved}
    return {**node_class, "metadata": {**metadata, "name": name}, "spec": {**node_class["spec"], "kubelet": kubelet}}


def launched_from(pool: JsonObject, class_name: str) -> JsonObject:
    """Return the NodePool with a reference to this class."""
    template = pool["spec"]["template"]
    reference = {**template["spec"]["nodeClassRef"], "name": class_name}
    spec = {**pool["spec"], "template": {**template, "spec": {**template["spec"], "nodeClassRef": reference}}}
    return {**pool, "spec": spec}


def _without_annotation(pool: JsonObject, class_name: str) -> JsonObject:
    annotations = {k: v for k, v in pool["metadata"]["annotations"].items() if k != labels.V1BETA1_KUBELET}
    return {**launched_from(pool, class_name), "metadata": {**pool["metadata"], "annotations": annotations}}
