"""All objects of an input brought to v1 together, because some say what others become: settings, classes, pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.awsnodetemplate import convert_template
from tenon.apis.legacy.conversion import Converted, Note, name_of
from tenon.apis.legacy.global_settings import convert_settings, is_settings, merged
from tenon.apis.legacy.kubelets import class_of, move_kubelets
from tenon.apis.legacy.provider_classes import made_from, provider_class, wanted_by_others
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
"""Older kinds and versions, with what they are now, in the order in which they are converted."""


def is_older(body: Mapping[str, Any]) -> bool:
    """Whether an object is of a kind or version before v1."""
    return (str(body.get("kind")), str(body.get("apiVersion"))) in OLDER


def convert_together(bodies: Sequence[JsonObject]) -> dict[int, Converted]:
    """What the older objects among these became, and the v1 objects that had to change with them, by their number."""
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
    found: dict[int, Converted] = {}
    for older, conversion in conversions.items():
        for number, body in enumerate(bodies):
            if (body.get("kind"), body.get("apiVersion")) == older:
                found[number] = made = _explained(conversion(body), body, expiry)
                expiry |= {
                    name_of(pool): pool["spec"]["template"]["spec"]["expireAfter"]
                    for pool in made.manifests
                    if pool["kind"] == "NodePool"
                }
    return _with_kubelets_moved(bodies, found)


def _explained(made: Converted, body: JsonObject, expiry: Mapping[str, str]) -> Converted:
    """With what is to be said of NodeClaims: whose time to live they have, and what their conditions became."""
    notes = list(made.notes)
    for claim in made.manifests:
        if claim["kind"] == "NodeClaim":
            owner = (claim["metadata"].get("labels") or {}).get(labels.NODEPOOL)
            if owner in expiry:
                notes.append(Note(f"expireAfter is that of NodePool {owner}", "spec.expireAfter"))
            if body.get("kind") == "Machine":
                notes.append(
                    Note("created in a cluster, it launches a node of its own: the Machine's node stays the Machine's")
                )
            if body.get("kind") == "Machine" and (claim.get("status") or {}).get("conditions"):
                sentence = "conditions have lost the prefix Machine; MachineEmpty and MachineExpired are no more"
                notes.append(Note(sentence, "status.conditions"))
    return Converted(made.manifests, notes, made.problems)


def _provider_classes(bodies: Sequence[JsonObject]) -> dict[str, str]:
    """By Provisioner: the class that its provider becomes, should it have one in itself."""
    provisioners = [body for body in bodies if body.get("kind") == "Provisioner"]
    classes = [body for body in bodies if body.get("kind") == "EC2NodeClass"]
    templates = {name_of(body) for body in bodies if body.get("kind") == "AWSNodeTemplate"}
    found = {}
    for name in map(name_of, provisioners):
        own = made_from(name, classes)
        taken = templates | set(map(name_of, classes)) | wanted_by_others(name, provisioners)
        found[name] = provider_class(name, taken, own)
    return found


def _with_kubelets_moved(bodies: Sequence[JsonObject], found: Mapping[int, Converted]) -> dict[int, Converted]:
    """Kubelet settings of pools in their classes, which may be those of other documents, and of today."""
    now = {n: found.get(n) or Converted([b]) for n, b in enumerate(bodies) if n in found or _is_class_or_pool(b)}
    pools = {name_of(m): m for made in now.values() for m in made.manifests if m["kind"] == "NodePool" and class_of(m)}
    classes = {name_of(m): m for made in now.values() for m in made.manifests if m["kind"] == "EC2NodeClass"}
    older = {name_of(m) for n in found for m in found[n].manifests if m["kind"] == "NodePool"}
    moved = move_kubelets(pools, classes, older)
    result = dict(found)
    for number, made in now.items():
        changed = [_changed(manifest, moved.pools, moved.classes) for manifest in made.manifests]
        notes = list(made.notes)
        for manifest in made.manifests:
            if manifest["kind"] == "NodePool" and name_of(manifest) in moved.notes and number in found:
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
            if name in map(name_of, made.manifests) and node_class in changed:
                givers = ", ".join(sorted(pool for pool, body in moved.pools.items() if class_of(body) == name))
                notes.append(Note(f"these were the kubelet settings of NodePool {givers}", "spec.kubelet"))
        if number in found or changed != list(made.manifests):
            result[number] = Converted(changed, notes, made.problems)
    return result


def _is_class_or_pool(body: JsonObject) -> bool:
    own = body.get("apiVersion") in ("karpenter.sh/v1", "karpenter.k8s.aws/v1")
    sound = isinstance(body.get("spec"), dict) and isinstance(body.get("metadata"), dict)
    return own and body.get("kind") in ("NodePool", "EC2NodeClass") and sound


def _changed(body: JsonObject, pools: Mapping[str, JsonObject], classes: Mapping[str, JsonObject]) -> JsonObject:
    known = {"NodePool": pools, "EC2NodeClass": classes}.get(body["kind"], {})
    return known.get(name_of(body), body)
