"""Converts all objects of an input to v1 together, because settings, classes and pools depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.awsnodetemplate import convert_template
from tenon.apis.legacy.config_maps import is_settings
from tenon.apis.legacy.conversion import Converted, Note, name_of
from tenon.apis.legacy.global_settings import convert_settings, merged
from tenon.apis.legacy.kubelets import class_of, move_kubelets
from tenon.apis.legacy.provider_classes import chosen_by_others, made_from, provider_class
from tenon.apis.legacy.v1alpha5 import convert_machine, convert_provisioner
from tenon.apis.legacy.v1beta1 import convert_nodeclaim, convert_nodeclass, convert_nodepool

OLDER: Mapping[tuple[str, str], str] = {
    ("AWSNodeTemplate", "karpenter.k8s.aws/v1alpha1"): "EC2NodeClass",
    ("EC2NodeClass", "karpenter.k8s.aws/v1beta1"): "EC2NodeClass",
    ("Provisioner", "karpenter.sh/v1alpha5"): "NodePool",
    ("NodePool", "karpenter.sh/v1beta1"): "NodePool",
    ("Machine", "karpenter.sh/v1alpha5"): "NodeClaim",
    ("NodeClaim", "karpenter.sh/v1beta1"): "NodeClaim",
}
"""v1 kind of each older kind and version, in conversion order."""


def is_older(body: Mapping[str, Any]) -> bool:
    """True if the object has a kind or version from before v1."""
    return (str(body.get("kind")), str(body.get("apiVersion"))) in OLDER


def convert_batch(bodies: Sequence[JsonObject]) -> dict[int, Converted]:
    """Convert the older objects among these.

    Returns:
        By index in ``bodies``: each older object's conversion, and each v1 object that had to change as a result.
    """
    defaults = merged(convert_settings(body) for body in bodies if is_settings(body)).defaults
    expiry: dict[str, str] = {}
    provider_classes = _provider_classes(bodies)
    conversions: Mapping[tuple[str, str], Callable[[JsonObject], Converted]] = dict(
        zip(
            OLDER,
            (
                lambda body: convert_template(body, defaults),
                convert_nodeclass,
                lambda body: convert_provisioner(body, defaults, provider_classes[name_of(body)]),
                convert_nodepool,
                lambda body: convert_machine(body, expiry),
                lambda body: convert_nodeclaim(body, expiry),
            ),
            strict=True,
        )
    )
    results: dict[int, Converted] = {}
    for older, conversion in conversions.items():
        for number, body in enumerate(bodies):
            if (body.get("kind"), body.get("apiVersion")) == older:
                results[number] = result = _explained(conversion(body), body, expiry)
                expiry |= {
                    name_of(pool): pool["spec"]["template"]["spec"]["expireAfter"]
                    for pool in result.manifests
                    if pool["kind"] == "NodePool"
                }
    return _with_kubelets_moved(bodies, results)


def _explained(result: Converted, body: JsonObject, expiry: Mapping[str, str]) -> Converted:
    """Add notes to NodeClaims: where ``expireAfter`` came from, and how a Machine's conditions changed."""
    notes = list(result.notes)
    for claim in result.manifests:
        if claim["kind"] == "NodeClaim":
            owner = (claim["metadata"].get("labels") or {}).get(labels.NODEPOOL)
            if owner in expiry:
                notes.append(Note(f"expireAfter is that of NodePool {owner}", "spec.expireAfter"))
            if body.get("kind") == "Machine":
                notes.append(Note("if you create it in a cluster, it launches a new node: the Machine keeps its own"))
            if body.get("kind") == "Machine" and (claim.get("status") or {}).get("conditions"):
                sentence = "conditions have lost the prefix Machine; MachineEmpty and MachineExpired no longer exist"
                notes.append(Note(sentence, "status.conditions"))
    return Converted(result.manifests, notes, result.problems)


def _provider_classes(bodies: Sequence[JsonObject]) -> dict[str, str]:
    """Name of the EC2NodeClass to create for each Provisioner that has an inline provider."""
    provisioners = [body for body in bodies if body.get("kind") == "Provisioner"]
    classes = [body for body in bodies if body.get("kind") == "EC2NodeClass"]
    templates = {name_of(body) for body in bodies if body.get("kind") == "AWSNodeTemplate"}
    classes_by_provider = {}
    for name in map(name_of, provisioners):
        own = made_from(name, classes)
        taken_names = templates | set(map(name_of, classes)) | chosen_by_others(name, provisioners)
        classes_by_provider[name] = provider_class(name, taken_names, own)
    return classes_by_provider


def _with_kubelets_moved(bodies: Sequence[JsonObject], results: Mapping[int, Converted]) -> dict[int, Converted]:
    """Move the kubelet settings of pools into their classes.

    A class may come from another document or already be v1.
    """
    now = {n: results.get(n) or Converted([b]) for n, b in enumerate(bodies) if n in results or _is_class_or_pool(b)}
    pools = {
        name_of(m): m
        for converted in now.values()
        for m in converted.manifests
        if m["kind"] == "NodePool" and class_of(m)
    }
    classes = {name_of(m): m for converted in now.values() for m in converted.manifests if m["kind"] == "EC2NodeClass"}
    older = {name_of(m) for n in results for m in results[n].manifests if m["kind"] == "NodePool"}
    moved = move_kubelets(pools, classes, older)
    result = dict(results)
    for number, converted in now.items():
        changed = [_changed(manifest, moved.pools, moved.classes) for manifest in converted.manifests]
        notes = list(converted.notes)
        for manifest in converted.manifests:
            if manifest["kind"] == "NodePool" and name_of(manifest) in moved.notes and number in results:
                name = name_of(manifest)
                own = class_of(moved.pools[name]) if name in moved.pools else None
                if own is not None:
                    notes = [
                        note for note in notes if not (isinstance(note, Note) and labels.V1BETA1_KUBELET in note.path)
                    ]
                place = "spec.template.spec.nodeClassRef" if own else f"metadata.annotations[{labels.V1BETA1_KUBELET}]"
                notes.append(Note(moved.notes[name], place))
                if own is not None and own not in classes:
                    changed.append(moved.classes[own])
        for name, node_class in moved.classes.items():
            if name in map(name_of, converted.manifests) and node_class in changed:
                givers = ", ".join(sorted(pool for pool, body in moved.pools.items() if class_of(body) == name))
                notes.append(Note(f"these were the kubelet settings of NodePool {givers}", "spec.kubelet"))
        if number in results or changed != list(converted.manifests):
            result[number] = Converted(changed, notes, converted.problems)
    return result


def _is_class_or_pool(body: JsonObject) -> bool:
    own = body.get("apiVersion") in ("karpenter.sh/v1", "karpenter.k8s.aws/v1")
    sound = isinstance(body.get("spec"), dict) and isinstance(body.get("metadata"), dict)
    return own and body.get("kind") in ("NodePool", "EC2NodeClass") and sound


def _changed(body: JsonObject, pools: Mapping[str, JsonObject], classes: Mapping[str, JsonObject]) -> JsonObject:
    known_objects = {"NodePool": pools, "EC2NodeClass": classes}.get(body["kind"], {})
    return known_objects.get(name_of(body), body)
