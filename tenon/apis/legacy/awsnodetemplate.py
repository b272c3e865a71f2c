"""Converts AWSNodeTemplate (karpenter.k8s.aws/v1alpha1), and the inline provider of a Provisioner, to EC2NodeClass."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.ec2nodeclass import MAX_TAGS
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.amis import OldFamily, convert_family, family_problem, incompatible_status
from tenon.apis.legacy.conversion import (
    NODE_CLASS_KIND,
    PROVISIONER_NAME,
    Converted,
    Note,
    OldObject,
    listed,
    metadata_of,
    read,
    without_empty,
)
from tenon.apis.validation import FieldError
from tenon.apis.versions.nodeclasses import is_incompatible

METADATA_OPTIONS: JsonObject = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
ANYTHING_DISCOVERED: list[JsonObject] = [{"tags": {"karpenter.sh/discovery": "*"}}]
IDS = ("aws-ids", "aws::ids")
RESTRICTED_TAGS = (PROVISIONER_NAME, "karpenter.sh/managed-by")
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


class TemplateSpec(ApiModel):
    """The fields that v1 interprets differently."""

    ami_family: OldFamily = "AL2"
    ami_selector: dict[str, str] = {}
    subnet_selector: dict[str, str] = {}
    security_group_selector: dict[str, str] = {}
    instance_profile: str = ""
    launch_template: str = ""
    metadata_options: dict[str, Any] = {}
    block_device_mappings: list[dict[str, Any]] = []
    tags: dict[str, str] = {}


class NodeTemplate(OldObject):
    spec: TemplateSpec
    status: dict[str, Any] = {}


def convert_template(manifest: Mapping[str, Any], defaults: Defaults | None = None) -> Converted:
    """Convert the AWSNodeTemplate to an EC2NodeClass of the same name."""
    found, problems = read(NodeTemplate, manifest)
    if found is None:
        return Converted(problems=problems)
    problems = [*_problems(found.spec, manifest["spec"], defaults or Defaults())]
    for field, given in (("subnetSelector", found.spec.subnet_selector), ("securityGroupSelector", None)):
        wanted = found.spec.security_group_selector if given is None else given
        if not wanted and not (field == "securityGroupSelector" and found.spec.launch_template):
            problems.append(FieldError(f"spec.{field}", "is required"))
    if problems:
        return Converted(problems=problems)
    return _converted(manifest, found, defaults or Defaults())


def convert_provider(name: str, provider: Mapping[str, Any], defaults: Defaults | None = None) -> Converted:
    """Convert the inline provider of the Provisioner ``name`` to an EC2NodeClass of that name."""
    manifest = {"metadata": {"name": name}, "spec": dict(provider)}
    found, problems = read(NodeTemplate, manifest)
    if found is not None:
        problems = [*_problems(found.spec, provider, defaults or Defaults())]
    if found is None or problems:
        return Converted(
            problems=[FieldError(p.path.replace("spec", "spec.provider", 1), p.sentence) for p in problems]
        )
    return _converted(manifest, found, defaults or Defaults())


def _converted(manifest: Mapping[str, Any], found: NodeTemplate, defaults: Defaults) -> Converted:
    spec, given = found.spec, manifest["spec"]
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    terms = ami_terms(spec.ami_selector)
    unnamed = "ami_family" not in spec.model_fields_set and not terms
    family = defaults.family if unnamed else spec.ami_family
    fields, added, notes = convert_family(family, terms, spec.block_device_mappings, annotations)
    if family != spec.ami_family:
        sentence = f"it names no amiFamily, and AL2 has no images for this Kubernetes version: {family} is taken"
        notes.append(Note(sentence, "spec.amiSelectorTerms"))
    for field, selector, what in (
        ("subnetSelectorTerms", spec.subnet_selector, "subnets"),
        ("securityGroupSelectorTerms", spec.security_group_selector, "security groups"),
    ):
        fields[field] = selector_terms(selector) if selector else ANYTHING_DISCOVERED
        if not selector:
            notes.append(
                Note(f"it names no {what}: those with the tag karpenter.sh/discovery are taken", f"spec.{field}")
            )
    if spec.launch_template:
        sentence = f"launchTemplate {spec.launch_template} is left out: launch templates of your own are no more"
        notes.append(Note(sentence, "spec.amiSelectorTerms"))
    fields |= _identity(spec, defaults, notes)
    fields["metadataOptions"] = {**METADATA_OPTIONS, **spec.metadata_options}
    rest = {**given, "tags": _tags(spec, defaults, notes)}
    for name in ("userData", "tags", "detailedMonitoring", "context"):
        fields |= without_empty({name: rest.get(name)})
    status = incompatible_status(found.status) if is_incompatible(added) else found.status
    node_class = {
        "apiVersion": f"{labels.AWS_GROUP}/v1",
        "kind": NODE_CLASS_KIND,
        "metadata": metadata_of(manifest, added),
        "spec": fields,
        **({"status": status} if status else {}),
    }
    return Converted([node_class], notes)


def _identity(spec: TemplateSpec, defaults: Defaults, notes: list[str]) -> JsonObject:
    profile = spec.instance_profile or defaults.instance_profile
    if profile:
        if not spec.instance_profile:
            sentence = f"its instance profile is aws.defaultInstanceProfile of the settings: {profile}"
            notes.append(Note(sentence, "spec.instanceProfile"))
        return {"instanceProfile": profile}
    role = f"KarpenterNodeRole-{defaults.cluster}" if defaults.cluster else "KarpenterNodeRole"
    sentence = f"it names no instance profile, and no settings do: the role {role} stands for your nodes' role"
    notes.append(Note(sentence, "spec.role"))
    return {"role": role}


def _tags(spec: TemplateSpec, defaults: Defaults, notes: list[str]) -> dict[str, str]:
    """The class's own tags, and the tags from the settings that it does not override."""
    added = {tag: value for tag, value in defaults.tags.items() if tag not in spec.tags}
    if added:
        notes.append(Note(f"the settings (aws.tags, DEFAULT_TAGS) add tags: {listed(added)}", "spec.tags"))
    return {**spec.tags, **added}


def _problems(spec: TemplateSpec, given: Mapping[str, Any], defaults: Defaults) -> Iterable[FieldError]:
    if problem := family_problem(spec.ami_family, [*spec.ami_selector], "spec.amiSelector"):
        yield problem
    for field, selector in (
        ("amiSelector", spec.ami_selector),
        ("subnetSelector", spec.subnet_selector),
        ("securityGroupSelector", spec.security_group_selector),
    ):
        ids = [key for key in IDS if key in selector]
        if ids and len(selector) > 1:
            yield FieldError(f"spec.{field}[{ids[0]}]", "stands alone: ids are not combined with tags")
        elif ids and not _split(selector[ids[0]]):
            yield FieldError(f"spec.{field}[{ids[0]}]", "names no id")
        if "" in selector:
            yield FieldError(f"spec.{field}", "has an empty key")
    if spec.launch_template:
        for name in EXCLUDED_BY_LAUNCH_TEMPLATE:
            if given.get(name):
                yield FieldError(f"spec.{name}", "is not combined with launchTemplate")
    for tag in RESTRICTED_TAGS:
        if tag in spec.tags:
            yield FieldError(f"spec.tags[{tag}]", "is a tag that Karpenter kept for itself")
    own, every = len(spec.tags), len({**defaults.tags, **spec.tags})
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
