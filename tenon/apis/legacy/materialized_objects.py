"""The NodePools and EC2NodeClasses that Tenon creates for Provisioners and AWSNodeTemplates.

They are real objects, so that all other code handles only v1. Each is owned by the old object that it was generated
from: users edit the old object, and deleting it deletes the generated object.
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
from tenon.apis.legacy.kubelets import class_of, launched_from
from tenon.apis.legacy.v1alpha5 import convert_provisioner
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse

PROVISIONER, TEMPLATE = "Provisioner", "AWSNodeTemplate"
EDITS = ": edit that one, because Tenon reverts edits of this one"
MODELS: Mapping[str, type[NodePool] | type[EC2NodeClass]] = {"NodePool": NodePool, NODE_CLASS_KIND: EC2NodeClass}

ClassSpec = Callable[[str], Mapping[str, Any] | None]
"""Returns the spec of the EC2NodeClass of this name, or of the one that an AWSNodeTemplate of this name converts to."""


@dataclass(frozen=True, slots=True)
class Materialized:
    """The objects generated from one old object. There are none if there is a ``problem``."""

    manifests: tuple[JsonObject, ...] = ()
    """The objects, each with its owner and without status."""
    notes: tuple[str, ...] = ()
    """Sentences that explain the conversion to the user."""
    problem: str = ""
    """Why the object cannot be converted, as a sentence."""

    @property
    def names(self) -> str:
        """The kinds and names of the objects, for a sentence."""
        return ", ".join(f"{body['kind']} {name_of(body)}" for body in self.manifests)


def made_of_provisioner(
    body: Mapping[str, Any], class_spec: ClassSpec, defaults: Defaults | None = None, provider_class: str = ""
) -> Materialized:
    """Return the NodePool of a Provisioner, and an EC2NodeClass if it has an inline provider or kubelet settings.

    ``provider_class`` is the class of its provider, if its name differs from the name of the Provisioner.
    """
    converted = convert_provisioner(_without_status(body), defaults, provider_class)
    if converted.problems:
        return _refused(converted)
    pool, *classes = converted.manifests
    kubelet = (pool["metadata"].get("annotations") or {}).get(labels.V1BETA1_KUBELET)
    class_name = class_of(pool) or ""
    base = classes[0]["spec"] if classes else class_spec(class_name)
    if not kubelet:
        missing = (
            [] if base is not None else [f"AWSNodeTemplate {class_name} is missing, and no node is launched without it"]
        )
        return _made(PROVISIONER, body, replace(converted, notes=[*missing, *converted.notes]))
    settings = json.loads(kubelet)
    if base is None:
        return Materialized(
            problem=f"its kubelet settings wait for AWSNodeTemplate {class_name}, which is missing: create it"
        )
    own = name_of(classes[0]) if classes else f"{class_name}-{name_of(body)}"
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
        replace(converted, manifests=[launched_from(pool, own), node_class], notes=[*converted.notes, note]),
    )


def made_of_template(body: Mapping[str, Any], defaults: Defaults | None = None) -> Materialized:
    """Return the EC2NodeClass of an AWSNodeTemplate."""
    converted = convert_template(_without_status(body), defaults)
    return _refused(converted) if converted.problems else _made(TEMPLATE, body, converted)


def belongs_to(present: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether the object was generated from this old object, identified by its UID."""
    uid = (owner.get("metadata") or {}).get("uid")
    owners = (present.get("metadata") or {}).get("ownerReferences") or ()
    return any(reference.get("controller") and reference.get("uid") == uid for reference in owners)


def differs(present: Mapping[str, Any], desired: JsonObject) -> bool:
    """Whether an object differs from what it should be. Defaults that the API server filled in do not count."""
    metadata = present.get("metadata") or {}
    for part in ("labels", "annotations"):
        present_values = metadata.get(part) or {}
        if any(present_values.get(key) != value for key, value in (desired["metadata"].get(part) or {}).items()):
            return True
    if list(metadata.get("ownerReferences") or ()) != _owners(metadata, desired):
        return True
    model = MODELS[desired["kind"]]
    is_now, _ = parse(model, present)
    should_be, _ = parse(model, desired)
    return is_now is None or should_be is None or is_now.spec.to_dict() != should_be.spec.to_dict()


def changes(present: Mapping[str, Any], desired: JsonObject) -> list[JsonObject]:
    """Return a JSON patch that replaces the object's spec and keeps the metadata that others added.

    The patch applies only to the resource version that was read; any other version is a conflict.
    """
    metadata, should_be = present["metadata"], desired["metadata"]
    patch: list[JsonObject] = [
        {"op": "add", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/spec", "value": desired["spec"]},
        {"op": "add", "path": "/metadata/ownerReferences", "value": _owners(metadata, desired)},
    ]
    for part in ("labels", "annotations"):
        if should_be.get(part):
            patch.append(
                {"op": "add", "path": f"/metadata/{part}", "value": {**(metadata.get(part) or {}), **should_be[part]}}
            )
    return patch


def _owners(metadata: Mapping[str, Any], desired: JsonObject) -> list[JsonObject]:
    """The owners that an object should have: the generating object, and those that others added.

    An object has at most one controller, so the previous controller is removed.
    """
    (mine,) = desired["metadata"]["ownerReferences"]
    owners = metadata.get("ownerReferences") or ()
    kept_owners = [mine if owner.get("uid") == mine["uid"] else dict(owner) for owner in owners if _stays(owner, mine)]
    return kept_owners if mine in kept_owners else [*kept_owners, mine]


def _stays(owner: Mapping[str, Any], mine: JsonObject) -> bool:
    return owner.get("uid") == mine["uid"] or not owner.get("controller")


def _made(kind: str, owner: Mapping[str, Any], converted: Converted) -> Materialized:
    manifests = tuple(_owned(kind, owner, body) for body in converted.manifests)
    for body in manifests:
        model: type[ApiModel] = MODELS[body["kind"]]
        _, problems = parse(model, body)
        if problems:
            return Materialized(
                problem=f"the result of its conversion is not a valid {body['kind']}: {'; '.join(map(str, problems))}"
            )
    return Materialized(manifests, tuple(map(str, converted.notes)))


def _owned(kind: str, owner: Mapping[str, Any], body: JsonObject) -> JsonObject:
    """The object to write, with only Tenon's own labels and annotations, because other tools find objects by theirs."""
    body_annotations = (body["metadata"].get("annotations") or {}).items()
    annotations = {
        key: value
        for key, value in body_annotations
        if key.startswith("compatibility.") and key != labels.V1BETA1_KUBELET
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


def _without_status(body: Mapping[str, Any]) -> JsonObject:
    """Drop the status: the conversion does not need it, and it may be malformed."""
    return {key: value for key, value in body.items() if key != "status"}


def _refused(converted: Converted) -> Materialized:
    return Materialized(problem="; ".join(map(str, converted.problems)))
