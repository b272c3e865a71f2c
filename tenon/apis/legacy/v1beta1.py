"""Converts v1beta1 manifests to v1, with the same result as the API server's conversion, in a readable layout.

`tenon.apis.versions` does the conversion. This module adds the defaults that the API server fills in before it calls
the webhook, handles what occurs only in files (labels from before v1beta1, annotations without meaning in v1), orders
the fields, and writes the notes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.duration import NEVER_TEXT
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.amis import family_notes, family_problem, incompatible_status
from tenon.apis.legacy.conversion import NODE_CLASS_KIND, Converted, Note, metadata_of, renamed, stored
from tenon.apis.legacy.kinds.v1beta1 import NodeClaim, NodePool
from tenon.apis.legacy.kinds.v1beta1_ec2nodeclass import EC2NodeClass
from tenon.apis.validation import FieldError
from tenon.apis.versions.nodeclasses import is_incompatible
from tenon.apis.versions.objects import DEFAULT_EXPIRY, converted

_NODE = ("taints", "startupTaints", "requirements", "kubelet")
_REFERENCE = ("nodeClassRef.apiVersion", "nodeClassRef.kind", "nodeClassRef.name")
_NODEPOOL = (
    *(f"spec.template.metadata.{name}" for name in ("labels", "annotations")),
    *(f"spec.template.spec.{name}" for name in (*_NODE, *_REFERENCE)),
    *(f"spec.disruption.{name}" for name in ("consolidationPolicy", "consolidateAfter", "expireAfter", "budgets")),
    "spec.limits",
    "spec.weight",
)
_NODECLAIM = tuple(f"spec.{name}" for name in (*_NODE, *_REFERENCE, "resources"))
_EC2NODECLASS = tuple(
    f"spec.{name}" for name in ("amiFamily", "amiSelectorTerms", "blockDeviceMappings", "metadataOptions")
)

Layout = Mapping[str, Any]
"""The fields of a mapping in output order, each with its own layout if its inner fields are ordered too."""


def _fields(*names: str) -> Layout:
    return {name: {} for name in names}


_NODEPOOL_LAYOUT: Layout = {
    "template": {
        "metadata": _fields("labels", "annotations"),
        "spec": _fields("taints", "startupTaints", "requirements", "nodeClassRef", "expireAfter"),
    },
    "disruption": _fields("consolidationPolicy", "consolidateAfter", "budgets"),
    **_fields("limits", "weight"),
}
_NODECLAIM_LAYOUT = _fields("taints", "startupTaints", "requirements", "nodeClassRef", "resources", "expireAfter")
_EC2NODECLASS_LAYOUT = _fields(
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "associatePublicIPAddress",
    "userData",
    "role",
    "instanceProfile",
    "tags",
    "instanceStorePolicy",
    "detailedMonitoring",
    "context",
    "amiFamily",
    "amiSelectorTerms",
    "blockDeviceMappings",
    "metadataOptions",
)
_MEANT_WHEN_EMPTY = ("requirements", "budgets", "disruption")


def convert_nodepool(manifest: Mapping[str, Any]) -> Converted:
    """Convert the NodePool to v1. An annotation keeps its kubelet settings, from which they move to its class."""
    old, problems = _read(NodePool, manifest, _NODEPOOL)
    if old is None:
        return Converted(problems=problems)
    disruption = old["spec"].get("disruption") or {}
    if problem := _disruption_problem(disruption):
        return Converted(problems=[problem])
    old["spec"]["disruption"] = {
        "consolidationPolicy": "WhenUnderutilized",
        "expireAfter": DEFAULT_EXPIRY,
        **disruption,
    }
    converted_body = converted(old, f"{labels.GROUP}/v1")
    spec = converted_body["spec"]
    if template_labels := (spec["template"].get("metadata") or {}).get("labels"):
        spec["template"]["metadata"]["labels"] = renamed(template_labels)
    node, notes = manifest["spec"]["template"]["spec"], _disruption_notes(spec)
    annotations, kubelet_notes = _annotations(node, converted_body)
    return Converted(
        [_object(manifest, converted_body, annotations, _laid_out(spec, _NODEPOOL_LAYOUT))], [*notes, *kubelet_notes]
    )


def convert_nodeclaim(manifest: Mapping[str, Any], expiry: Mapping[str, str] | None = None) -> Converted:
    """Convert the NodeClaim to v1. It takes expireAfter from its NodePool, by name from ``expiry``."""
    old, problems = _read(NodeClaim, manifest, _NODECLAIM)
    if old is None:
        return Converted(problems=problems)
    old["spec"].pop("expireAfter", None)
    converted_body = converted(old, f"{labels.GROUP}/v1", expiry or {})
    annotations, notes = _annotations(manifest["spec"], converted_body)
    return Converted(
        [_object(manifest, converted_body, annotations, _laid_out(converted_body["spec"], _NODECLAIM_LAYOUT))], notes
    )


def convert_nodeclass(manifest: Mapping[str, Any]) -> Converted:
    """Convert the EC2NodeClass to v1."""
    old, problems = _read(EC2NodeClass, manifest, _EC2NODECLASS)
    if old is None:
        return Converted(problems=problems)
    family = old["spec"]["amiFamily"]
    if problem := family_problem(family, old["spec"].get("amiSelectorTerms") or (), "spec.amiSelectorTerms"):
        return Converted(problems=[problem])
    converted_body = converted(old, f"{labels.AWS_GROUP}/v1")
    mark = converted_body["metadata"].get("annotations", {}).get(labels.V1BETA1_UBUNTU)
    added = {labels.V1BETA1_UBUNTU: mark} if family == "Ubuntu" else {}
    if is_incompatible(added):
        converted_body["status"] = incompatible_status(converted_body.get("status") or {})
    spec = _laid_out(converted_body["spec"], _EC2NODECLASS_LAYOUT)
    return Converted([_object(manifest, converted_body, added, spec)], family_notes(family, spec, added))


def _read(
    model: type[ApiModel], manifest: Mapping[str, Any], fields: Sequence[str]
) -> tuple[JsonObject | None, list[FieldError]]:
    """Return a copy of the manifest for the converter, or the problems that prevent the conversion.

    The copy lacks the annotations from which the converter would restore fields, because users edit files by hand.
    """
    old, problems = stored(model, manifest, fields)
    if problems:
        return None, problems
    old["metadata"] = {**metadata_of(manifest)}
    annotations = {**old["metadata"].get("annotations", {})}
    for name in (labels.KEPT_OF_V1, labels.V1BETA1_REFERENCE):
        annotations.pop(name, None)
    old["metadata"]["annotations"] = annotations
    return old, []


def _object(
    manifest: Mapping[str, Any], converted_body: JsonObject, annotations: Mapping[str, str], spec: JsonObject
) -> JsonObject:
    """Build the v1 object with its old annotations and the given ones."""
    return {
        "apiVersion": converted_body["apiVersion"],
        "kind": converted_body["kind"],
        "metadata": metadata_of(manifest, annotations),
        "spec": spec,
        **({"status": converted_body["status"]} if converted_body.get("status") else {}),
    }


def _laid_out(value: Mapping[str, Any], layout: Layout) -> JsonObject:
    """Return the fields in layout order, without fields that v1 does not have and empty fields that have no meaning."""
    values: JsonObject = {}
    for name, inner in layout.items():
        field = value.get(name)
        if inner and isinstance(field, dict):
            field = _laid_out(field, inner)
        if field is not None and (field not in ([], {}) or name in _MEANT_WHEN_EMPTY):
            values[name] = field
    return values


def _annotations(node: Mapping[str, Any], converted_body: JsonObject) -> tuple[dict[str, str], list[str]]:
    """Return the annotations for fields that v1 keeps elsewhere, and the notes."""
    reference_fields = {name: value for name, value in node["nodeClassRef"].items() if value is not None}
    reference = {"apiVersion": "", "kind": NODE_CLASS_KIND, **reference_fields}
    old_reference = {name: reference[name] for name in ("apiVersion", "kind", "name")}
    annotations = {labels.V1BETA1_REFERENCE: json.dumps(old_reference)}
    text = converted_body["metadata"].get("annotations", {}).get(labels.V1BETA1_KUBELET)
    kubelet = json.loads(text) if text else {}
    if not kubelet:
        return annotations, []
    place = f"metadata.annotations[{labels.V1BETA1_KUBELET}]"
    notes: list[str] = [Note("kubelet settings belong to the EC2NodeClass now", place)]
    if kubelet.pop("containerRuntime", None) is not None:
        notes.append(
            Note("kubelet.containerRuntime is dropped: every node runs containerd", "spec.template.spec.nodeClassRef")
        )
    if kubelet:
        annotations[labels.V1BETA1_KUBELET] = json.dumps(kubelet, sort_keys=True)
    return annotations, notes


def _disruption_problem(disruption: Mapping[str, Any]) -> FieldError | None:
    path = "spec.disruption.consolidateAfter"
    policy, after = disruption.get("consolidationPolicy"), disruption.get("consolidateAfter")
    if policy == "WhenEmpty" and after is None:
        return FieldError(path, "is required with consolidationPolicy WhenEmpty")
    if policy == "WhenUnderutilized" and after not in (None, NEVER_TEXT):
        return FieldError(
            path, "is not taken with consolidationPolicy WhenUnderutilized before v1: leave one of them out"
        )
    return None


def _disruption_notes(spec: Mapping[str, Any]) -> list[str]:
    notes: list[str] = []
    if spec["template"]["spec"]["expireAfter"] != NEVER_TEXT:
        sentence = (
            "expired nodes are drained at once now: budgets no longer delay them, and no replacement is launched first"
        )
        notes.append(Note(sentence, "spec.template.spec.expireAfter"))
    if spec["disruption"]["consolidationPolicy"] != "WhenEmpty":
        sentence = "consolidationPolicy WhenUnderutilized is WhenEmptyOrUnderutilized now, "
        sentence += f"with consolidateAfter {spec['disruption']['consolidateAfter']}"
        notes.append(Note(sentence, "spec.disruption.consolidationPolicy"))
    return notes
