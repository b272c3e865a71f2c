"""The parts of EC2NodeClass of karpenter.k8s.aws, and how each is converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from tenon.apis import labels
from tenon.apis.ami_families import CUSTOM, FAMILY_OF_ALIAS, V1beta1AMIFamily
from tenon.apis.ec2nodeclass import EC2NodeClassSpec
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.versions.parts import Part, Values
from tenon.apis.versions.shared import ANNOTATIONS, only_v1, taken_by

LATEST = "latest"
NO_IMAGE = "ami-placeholder"
UBUNTU_VOLUMES: list[dict[str, Any]] = [
    {
        "deviceName": "/dev/sda1",
        "rootVolume": True,
        "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
    }
]
_PLACEHOLDER = [{"id": NO_IMAGE}]
_IMAGES = {name: ("spec", name) for name in ("amiFamily", "amiSelectorTerms")}
_MARKS = {"version": (*ANNOTATIONS, labels.ALIAS_VERSION), "ubuntu": (*ANNOTATIONS, labels.V1BETA1_UBUNTU)}
"""The annotations. The Ubuntu mark on a class that is not Ubuntu would make it Ubuntu again, so it is only kept."""
_VOLUMES = {"blockDeviceMappings": ("spec", "blockDeviceMappings")}
_TAKES = taken_by(EC2NodeClassSpec)
_OPTIONS = {"metadataOptions": ("spec", "metadataOptions")}
_UBUNTU = {**_IMAGES, **_VOLUMES, "ubuntu": (*ANNOTATIONS, labels.V1BETA1_UBUNTU)}
_FAMILIES = frozenset(FAMILY_OF_ALIAS.values())
_OLD_FAMILIES = frozenset(get_args(V1beta1AMIFamily))


def is_incompatible(annotations: Mapping[str, str]) -> bool:
    """Whether the class was Ubuntu without AMI terms, so that no node may be launched from it."""
    return "incompatible" in annotations.get(labels.V1BETA1_UBUNTU, "").split(",")


def images_up(values: Values) -> Values:
    """Convert a family without AMI terms to an alias with the annotation's version, or else the latest (V1B-15)."""
    family = values.get("amiFamily")
    if values.get("amiSelectorTerms") or family not in _FAMILIES:
        return {name: value for name, value in values.items() if name != "ubuntu"}
    return {"amiSelectorTerms": [{"alias": f"{str(family).lower()}@{values.get('version') or LATEST}"}]}


def images_down(values: Values) -> Values:
    """Convert an alias to its family, with the version in an annotation. Drop other terms that only v1 can express.

    If v1beta1 can express none of the terms, the class gets an image that does not exist, so that no node is launched
    from it by mistake.
    """
    selector_terms = values.get("amiSelectorTerms")
    terms = [term for term in selector_terms if isinstance(term, dict)] if isinstance(selector_terms, list) else []
    alias, _, version = str(terms[0].get("alias") or "").partition("@") if len(terms) == 1 else ("", "", "")
    family = FAMILY_OF_ALIAS.get(alias)
    if family in _FAMILIES and values.get("amiFamily") in (None, family):
        return {"amiFamily": family} | ({} if version == LATEST else {"version": version})
    convertible_terms = [term for term in terms if not {"alias", "ssmParameter"} & term.keys()]
    stated_family = values.get("amiFamily")
    old_fields = {
        "amiFamily": stated_family if stated_family in _OLD_FAMILIES else CUSTOM,
        "amiSelectorTerms": convertible_terms or _PLACEHOLDER,
    }
    return old_fields | ({"version": values["version"]} if "version" in values else {})


def ubuntu_up(values: Values) -> Values:
    """Convert Ubuntu to AL2 with Ubuntu's volumes, and mark the derived fields for the way back (V1B-16)."""
    marks = ["amiFamily"]
    if not values.get("blockDeviceMappings"):
        marks.append("blockDeviceMappings")
    if not values.get("amiSelectorTerms"):
        marks.append("incompatible")
    return {
        "amiFamily": "AL2",
        "amiSelectorTerms": values.get("amiSelectorTerms") or _PLACEHOLDER,
        "blockDeviceMappings": values.get("blockDeviceMappings") or UBUNTU_VOLUMES,
        "ubuntu": ",".join(marks),
    }


def ubuntu_down(values: Values) -> Values:
    """Restore Ubuntu without the derived fields."""
    marks = str(values.get("ubuntu") or "")
    old_fields: Values = {"amiFamily": "Ubuntu"}
    if not (is_incompatible({labels.V1BETA1_UBUNTU: marks}) and values.get("amiSelectorTerms") == _PLACEHOLDER):
        old_fields["amiSelectorTerms"] = values.get("amiSelectorTerms") or []
    if not ("blockDeviceMappings" in marks and values.get("blockDeviceMappings") == UBUNTU_VOLUMES):
        old_fields["blockDeviceMappings"] = values.get("blockDeviceMappings") or []
    return old_fields


def _hop_limit(default: int) -> Any:
    """Return a conversion that fills in the version's default hop limit if options are given without one (V1B-14)."""

    def stated(values: Values) -> Values:
        options = values.get("metadataOptions")
        if not isinstance(options, dict) or options.get("httpPutResponseHopLimit") is not None:
            return values
        old_options = {name: value for name, value in options.items() if name != "httpPutResponseHopLimit"}
        return {"metadataOptions": {"httpPutResponseHopLimit": default, **old_options}}

    return stated


_COMMON = (
    Part("metadataOptions", _OPTIONS, _OPTIONS, _hop_limit(2), _hop_limit(1)),
    *(
        only_v1(name, ("spec", name), _TAKES)
        for name in (
            "kubelet",
            "capacityReservationSelectorTerms",
            "placementGroupSelector",
            "ipPrefixCount",
            "networkInterfaces",
            "connectionTracking",
            "cpuOptions",
            "enclaveOptions",
        )
    ),
)
_PLAIN = (
    Part("images", {**_IMAGES, **_MARKS}, {**_IMAGES, **_MARKS}, images_up, images_down),
    *_COMMON,
)
_OF_UBUNTU = (Part("ubuntu", _UBUNTU, _UBUNTU, ubuntu_up, ubuntu_down), *_COMMON)


def parts_of(body: JsonObject) -> tuple[Part, ...]:
    """Return the parts of a class, in either version. Classes that are or were Ubuntu have other parts."""
    family = field_at(body, "spec", "amiFamily")
    if str(body.get("apiVersion")).endswith("/v1beta1"):
        return _OF_UBUNTU if family == "Ubuntu" else _PLAIN
    annotations = field_at(body, "metadata", "annotations")
    marked = isinstance(annotations, dict) and labels.V1BETA1_UBUNTU in annotations
    return _OF_UBUNTU if family == "AL2" and marked else _PLAIN
