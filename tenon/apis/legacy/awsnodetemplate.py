"""Converts AWSNodeTemplate (karpenter.k8s.aws/v1alpha1), and the inline provider of a Provisioner, to EC2NodeClass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from tenon.apis import labels
from tenon.apis.base import FaultKind
from tenon.apis.ec2nodeclass import MAX_TAGS
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.amis import OldFamily, convert_family, family_problem, incompatible_status
from tenon.apis.legacy.conversion import (
    NODE_CLASS_KIND,
    PROVISIONER_NAME,
    Converted,
    Note,
    listed,
    metadata_of,
    stored,
    without_empty,
)
from tenon.apis.legacy.kinds.v1alpha1 import AWSNodeTemplate
from tenon.apis.validation import FieldError
from tenon.apis.versions.nodeclasses import is_incompatible

METADATA_OPTIONS: JsonObject = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
DISCOVERY_TAG = "karpenter.sh/discovery"
IDS = ("aws-ids", "aws::ids")
RESTRICTED_TAGS = (PROVISIONER_NAME, "karpenter.sh/managed-by")
_SELECTORS = ("amiSelector", "subnetSelector", "securityGroupSelector")
_FIELDS = (
    *(f"spec.{name}.*" for name in (*_SELECTORS, "tags")),
    *(f"spec.{name}" for name in ("amiFamily", "instanceProfile", "launchTemplate", "metadataOptions")),
    "spec.blockDeviceMappings",
)
EXCLUDED_BY_LAUNCH_TEMPLATE = (
    "userData",
    "amiSelector",
    "amiFamily",
    "securityGroupSelector",
    "metadataOptions",
    "instanceProfile",
    "blockDeviceMappings",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Defaults:
    """Cluster-wide defaults from the settings, for classes that do not set these fields."""

    instance_profile: str = ""
    cluster: str = ""
    family: OldFamily = "AL2"
    """The AMI family of classes without family and AMIs: AL2, unless AL2 has no images for the Kubernetes version."""
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Tags of every class that does not set the same tags itself."""


def convert_template(manifest: Mapping[str, Any], defaults: Defaults | None = None) -> Converted:
    """Convert the AWSNodeTemplate to an EC2NodeClass of the same name."""
    return _converted(manifest, defaults or Defaults(), is_template=True)


def convert_provider(name: str, provider: Mapping[str, Any], defaults: Defaults | None = None) -> Converted:
    """Convert the inline provider of the Provisioner ``name`` to an EC2NodeClass of that name."""
    manifest = {"metadata": {"name": name}, "spec": dict(provider)}
    converted_class = _converted(manifest, defaults or Defaults(), is_template=False)
    problems = (p._replace(path=p.path.replace("spec", "spec.provider", 1)) for p in converted_class.problems)
    return dataclasses.replace(converted_class, problems=tuple(problems))


def _converted(manifest: Mapping[str, Any], defaults: Defaults, *, is_template: bool) -> Converted:
    old, problems = stored(AWSNodeTemplate, manifest, _FIELDS)
    if not problems:
        problems = [*_problems(old["spec"], manifest["spec"], defaults)]
        if is_template:
            problems += _missing(old["spec"])
    if problems:
        return Converted(problems=problems)
    spec = old["spec"]
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    terms = ami_terms(spec.get("amiSelector") or {})
    stated_family: OldFamily = spec.get("amiFamily") or "AL2"
    family = stated_family if "amiFamily" in spec or terms else defaults.family
    volumes = spec.get("blockDeviceMappings") or ()
    fields, added, notes = convert_family(family, terms, volumes, annotations)
    if family != stated_family:
        sentence = f"it names no amiFamily, and AL2 has no images for this Kubernetes version: Tenon uses {family}"
        notes.append(Note(sentence, "spec.amiSelectorTerms"))
    for field, noun in (("subnetSelector", "subnets"), ("securityGroupSelector", "security groups")):
        selector = spec.get(field)
        fields[f"{field}Terms"] = selector_terms(selector) if selector else _default_terms(defaults.cluster)
        if not selector:
            sentence = f"it names no {noun}: Tenon uses those with the tag {_default_tag(defaults.cluster)}"
            notes.append(Note(sentence, f"spec.{field}Terms"))
    if spec.get("launchTemplate"):
        sentence = (
            f"launchTemplate {spec['launchTemplate']} is left out: your own launch templates are no longer supported"
        )
        notes.append(Note(sentence, "spec.amiSelectorTerms", ended_field="launchTemplate"))
    fields |= _identity(spec, defaults, notes)
    fields["metadataOptions"] = {**METADATA_OPTIONS, **(spec.get("metadataOptions") or {})}
    rest = {**spec, "tags": _tags(spec, defaults, notes)}
    for name in ("userData", "tags", "detailedMonitoring", "context"):
        fields |= without_empty({name: rest.get(name)})
    status = old.get("status") or {}
    if is_incompatible(added):
        status = incompatible_status(status)
    node_class = {
        "apiVersion": f"{labels.AWS_GROUP}/v1",
        "kind": NODE_CLASS_KIND,
        "metadata": metadata_of(manifest, added),
        "spec": fields,
        **({"status": status} if status else {}),
    }
    return Converted([node_class], notes)


def _default_terms(cluster: str) -> list[JsonObject]:
    """Return the selector terms of a class without a selector: what carries the cluster's tag of Karpenter's guides.

    Karpenter 0.5 took the tag ``kubernetes.io/cluster/NAME``, and one security group of those with it. Load balancers'
    groups and public subnets may have this tag too, and terms cannot leave them out. Where the cluster is not known,
    the terms match what any cluster discovers.
    """
    return [{"tags": {DISCOVERY_TAG: cluster or "*"}}]


def _default_tag(cluster: str) -> str:
    """Name that tag in a sentence."""
    return (
        f"{DISCOVERY_TAG}: {cluster}"
        if cluster
        else f"{DISCOVERY_TAG} of any cluster: write your cluster's name instead of *"
    )


def _identity(spec: Mapping[str, Any], defaults: Defaults, notes: list[str]) -> JsonObject:
    profile = spec.get("instanceProfile") or defaults.instance_profile
    if profile:
        if not spec.get("instanceProfile"):
            sentence = f"its instance profile is aws.defaultInstanceProfile of the settings: {profile}"
            notes.append(Note(sentence, "spec.instanceProfile"))
        return {"instanceProfile": profile}
    role = f"KarpenterNodeRole-{defaults.cluster}" if defaults.cluster else "KarpenterNodeRole"
    sentence = f"it names no instance profile, and no settings do: the role {role} stands for your nodes' role"
    notes.append(Note(sentence, "spec.role"))
    return {"role": role}


def _tags(spec: Mapping[str, Any], defaults: Defaults, notes: list[str]) -> dict[str, str]:
    """The class's own tags, and the tags from the settings that it does not override."""
    own = spec.get("tags") or {}
    added = {tag: value for tag, value in defaults.tags.items() if tag not in own}
    if added:
        notes.append(Note(f"the settings (aws.tags, DEFAULT_TAGS) add tags: {listed(added)}", "spec.tags"))
    return {**own, **added}


def _missing(spec: Mapping[str, Any]) -> Iterable[FieldError]:
    for field, without in (("subnetSelector", False), ("securityGroupSelector", bool(spec.get("launchTemplate")))):
        if not spec.get(field) and not without:
            yield FieldError(f"spec.{field}", "is required", FaultKind.MISSING)


def _problems(spec: Mapping[str, Any], options: Mapping[str, Any], defaults: Defaults) -> Iterable[FieldError]:
    if problem := family_problem(spec.get("amiFamily", ""), spec.get("amiSelector") or (), "spec.amiSelector"):
        yield problem
    for field in _SELECTORS:
        selector = spec.get(field) or {}
        ids = [key for key in IDS if key in selector]
        if ids and len(selector) > 1:
            yield FieldError(f"spec.{field}[{ids[0]}]", "must stand alone: ids cannot be combined with tags")
        elif ids and not _split(selector[ids[0]]):
            yield FieldError(f"spec.{field}[{ids[0]}]", "names no id")
        if "" in selector:
            yield FieldError(f"spec.{field}", "has an empty key")
    if spec.get("launchTemplate"):
        for name in EXCLUDED_BY_LAUNCH_TEMPLATE:
            if options.get(name):
                yield FieldError(f"spec.{name}", "is not combined with launchTemplate")
    tags = spec.get("tags") or {}
    for tag in RESTRICTED_TAGS:
        if tag in tags:
            yield FieldError(f"spec.tags[{tag}]", "is a tag that Karpenter kept for itself")
    own, every = len(tags), len({**defaults.tags, **tags})
    if own <= MAX_TAGS < every:
        sentence = f"has {own} tags, {every} with those of the settings: an EC2NodeClass takes {MAX_TAGS}"
        yield FieldError("spec.tags", sentence)


def ami_terms(selector: Mapping[str, str]) -> list[JsonObject]:
    """Convert an AMI selector to terms: one per id, otherwise one per combination of name and owner, with the tags."""
    for key in IDS:
        if key in selector:
            return [{"id": name} for name in _split(selector[key])]
    tags = {key: value or "*" for key, value in selector.items() if key not in ("aws::name", "aws::owners")}
    names = _split(selector.get("aws::name", "")) or [""]
    owners = _split(selector.get("aws::owners", "")) or [""]
    terms = [without_empty({"name": n or None, "owner": o or None, "tags": tags}) for n, o in product(names, owners)]
    return [term for term in terms if term]


def selector_terms(selector: Mapping[str, str]) -> list[JsonObject]:
    """Convert a selector of subnets or security groups to terms. An empty value means any value."""
    for key in IDS:
        if key in selector:
            return [{"id": name} for name in _split(selector[key])]
    return [{"tags": {key: value or "*" for key, value in selector.items()}}]


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
