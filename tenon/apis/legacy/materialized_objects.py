"""What NodePools and EC2NodeClasses stand in a cluster for its Provisioners and AWSNodeTemplates.

They are real objects, so that everything else need know v1 only. Each belongs to the old object that it was made from,
which stays the one that people edit, and goes with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.awsnodetemplate import Defaults, convert_template
from tenon.apis.legacy.conversion import NODE_CLASS_KIND, Converted, listed, name_of
from tenon.apis.legacy.kubelets import class_of
from tenon.apis.legacy.v1alpha5 import convert_provisioner
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse

PROVISIONER, TEMPLATE = "Provisioner", "AWSNodeTemplate"
EDITS = ": edit that one, for edits made here are put back"
MODELS: Mapping[str, type[NodePool] | type[EC2NodeClass]] = {"NodePool": NodePool, NODE_CLASS_KIND: EC2NodeClass}

ClassSpec = Callable[[str], Mapping[str, Any] | None]
"""The spec of the EC2NodeClass of a name, or of the one that an AWSNodeTemplate of that name becomes."""


@dataclass(frozen=True, slots=True)
class Made:
    """What one old object becomes; nothing, when there is a ``problem``."""

    manifests: tuple[JsonObject, ...] = ()
    """The objects, each with its owner and without status."""
    notes: tuple[str, ...] = ()
    """What a person should know of the change, a sentence each."""
    problem: str = ""
    """Why it cannot be, in a sentence."""

    @property
    def names(self) -> str:
        """The objects, for a sentence."""
        return ", ".join(f"{body['kind']} {name_of(body)}" for body in self.manifests)


def made_of_provisioner(
    body: Mapping[str, Any], class_spec: ClassSpec, defaults: Defaults | None = None, provider_class: str = ""
) -> Made:
    """The NodePool of a Provisioner, with an EC2NodeClass where it has its provider or kubelet settings in itself.

    ``provider_class`` names the class of its provider, when that is not the Provisioner's name.
    """
    converted = convert_provisioner(_without_status(body), defaults, provider_class)
    if converted.problems:
        return _refused(converted)
    pool, *classes = converted.manifests
    kubelet = (pool["metadata"].get("annotations") or {}).get(labels.V1BETA1_KUBELET)
    named = class_of(pool) or ""
    base = classes[0]["spec"] if classes else class_spec(named)
    if not kubelet:
        missing = (
            [] if base is not None else [f"AWSNodeTemplate {named} is not here, and no node is launched without it"]
        )
        return _made(PROVISIONER, body, replace(converted, notes=[*missing, *converted.notes]))
    settings = json.loads(kubelet)
    if base is None:
        return Made(problem=f"its kubelet settings wait for AWSNodeTemplate {named}, which is not here: create it")
    own = name_of(classes[0]) if classes else f"{named}-{name_of(body)}"
    node_class = {
        "apiVersion": f"{labels.AWS_GROUP}/v1",
        "kind": NODE_CLASS_KIND,
        "metadata": {"name": own},
        "spec": {**base, "kubelet": {**(base.get("kubelet") or {}), **settings}},
    }
    note = f"its kubelet settings ({listed(settings)}) are those of EC2NodeClass {own}"
    return _made(
        PROVISIONER,
        body,
        replace(converted, manifests=[_launched_from(pool, own), node_class], notes=[*converted.notes, note]),
    )


def made_of_template(body: Mapping[str, Any], defaults: Defaults | None = None) -> Made:
    """The EC2NodeClass of an AWSNodeTemplate."""
    converted = convert_template(_without_status(body), defaults)
    return _refused(converted) if converted.problems else _made(TEMPLATE, body, converted)


def belongs_to(present: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether an object was made from this old object, the very one of this UID."""
    uid = (owner.get("metadata") or {}).get("uid")
    owners = (present.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("controller") and one.get("uid") == uid for one in owners)


def differs(present: Mapping[str, Any], wanted: JsonObject) -> bool:
    """Whether an object is not as it should be; defaults that the API server filled in are no difference."""
    metadata = present.get("metadata") or {}
    for part in ("labels", "annotations"):
        found = metadata.get(part) or {}
        if any(found.get(key) != value for key, value in (wanted["metadata"].get(part) or {}).items()):
            return True
    if list(metadata.get("ownerReferences") or ()) != _owners(metadata, wanted):
        return True
    model = MODELS[wanted["kind"]]
    is_now, _ = parse(model, present)
    should_be, _ = parse(model, wanted)
    return is_now is None or should_be is None or is_now.spec.to_dict() != should_be.spec.to_dict()


def changes(present: Mapping[str, Any], wanted: JsonObject) -> list[JsonObject]:
    """A JSON patch that makes an object as it should be, whatever was added to its spec; others' metadata stays.

    It holds for the version that was read, and is a conflict for any other.
    """
    metadata, should_be = present["metadata"], wanted["metadata"]
    patch: list[JsonObject] = [
        {"op": "add", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/spec", "value": wanted["spec"]},
        {"op": "add", "path": "/metadata/ownerReferences", "value": _owners(metadata, wanted)},
    ]
    for part in ("labels", "annotations"):
        if should_be.get(part):
            patch.append(
                {"op": "add", "path": f"/metadata/{part}", "value": {**(metadata.get(part) or {}), **should_be[part]}}
            )
    return patch


def _owners(metadata: Mapping[str, Any], wanted: JsonObject) -> list[JsonObject]:
    """Those that an object should have: its own in its place, and whatever others have put beside it.

    Only one may be the controller, so one that an object is taken over from goes.
    """
    (mine,) = wanted["metadata"]["ownerReferences"]
    found = metadata.get("ownerReferences") or ()
    kept = [mine if one.get("uid") == mine["uid"] else dict(one) for one in found if _stays(one, mine)]
    return kept if mine in kept else [*kept, mine]


def _stays(one: Mapping[str, Any], mine: JsonObject) -> bool:
    return one.get("uid") == mine["uid"] or not one.get("controller")


def _made(kind: str, owner: Mapping[str, Any], converted: Converted) -> Made:
    manifests = tuple(_owned(kind, owner, body) for body in converted.manifests)
    for body in manifests:
        model: type[ApiModel] = MODELS[body["kind"]]
        _, problems = parse(model, body)
        if problems:
            return Made(problem=f"what it becomes is no valid {body['kind']}: {'; '.join(map(str, problems))}")
    return Made(manifests, tuple(map(str, converted.notes)))


def _owned(kind: str, owner: Mapping[str, Any], body: JsonObject) -> JsonObject:
    """The object as it is written: its own labels and annotations only, for others' tools look for theirs."""
    given = (body["metadata"].get("annotations") or {}).items()
    annotations = {
        key: value for key, value in given if key.startswith("compatibility.") and key != labels.V1BETA1_KUBELET
    }
    metadata: JsonObject = {
        "name": name_of(body),
        "annotations": {**annotations, labels.MADE_FROM: f"{kind} {name_of(owner)}{EDITS}"},
        "ownerReferences": [
            {
                "apiVersion": owner["apiVersion"],
                "kind": kind,
                "name": name_of(owner),
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if body["kind"] == "NodePool":
        metadata["labels"] = {labels.PROVISIONER: name_of(owner)}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": body["spec"]}


def _launched_from(pool: JsonObject, class_name: str) -> JsonObject:
    template = pool["spec"]["template"]
    reference = {**template["spec"]["nodeClassRef"], "name": class_name}
    spec = {**pool["spec"], "template": {**template, "spec": {**template["spec"], "nodeClassRef": reference}}}
    return {**pool, "spec": spec}


def _without_status(body: Mapping[str, Any]) -> JsonObject:
    """What it says of the past is of no use here, and need not be sound."""
    return {key: value for key, value in body.items() if key != "status"}


def _refused(converted: Converted) -> Made:
    return Made(problem="; ".join(map(str, converted.problems)))
