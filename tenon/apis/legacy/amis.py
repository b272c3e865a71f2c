"""What became of AMI families: those that name no images are aliases now, and Ubuntu is no family any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tenon.apis import labels
from tenon.apis.conditions import READY
from tenon.apis.ec2nodeclass import AMIS_READY
from tenon.apis.legacy.conversion import Manifest, Note
from tenon.apis.validation import Problem

OldFamily = Literal["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom"]

ALIAS_VERSION = f"compatibility.{labels.AWS_GROUP}/v1-alias-version"
"""The version of the alias that a class was given before it had one."""
UBUNTU = f"compatibility.{labels.AWS_GROUP}/v1beta1-ubuntu"
"""What of a class comes from its having been Ubuntu."""
NO_IMAGE = "ami-placeholder"
UBUNTU_VOLUMES: list[dict[str, Any]] = [
    {
        "deviceName": "/dev/sda1",
        "rootVolume": True,
        "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
    }
]


def convert_family(
    family: str, terms: Sequence[Mapping[str, Any]], volumes: Sequence[Any], annotations: Mapping[str, str]
) -> tuple[Manifest, dict[str, str], list[str]]:
    """The AMI fields of the v1 class (with its volumes), annotations to add, and notes."""
    given = {"blockDeviceMappings": list(volumes)} if volumes else {}
    if family == "Ubuntu":
        return _ubuntu(terms, given)
    if terms:
        taint = f"{labels.UNREGISTERED_TAINT[0]}:{labels.UNREGISTERED_TAINT[1]}"
        note = Note(f"nodes of Custom images must come up with the taint {taint} now", "spec.amiFamily")
        notes: list[str] = [note] if family == "Custom" else []
        return {"amiFamily": family, "amiSelectorTerms": list(terms), **given}, {}, notes
    alias = f"{family.lower()}@{annotations.get(ALIAS_VERSION) or 'latest'}"
    note = Note(f"amiFamily {family} without AMIs is the alias {alias} now", "spec.amiSelectorTerms")
    return {"amiSelectorTerms": [{"alias": alias}], **given}, {}, [note]


def _ubuntu(terms: Sequence[Mapping[str, Any]], given: Manifest) -> tuple[Manifest, dict[str, str], list[str]]:
    marks = ["amiFamily"]
    sentence = "amiFamily Ubuntu is no more: its nodes are set up as those of AL2, from images that you name"
    notes: list[str] = [Note(sentence, "spec.amiFamily")]
    if not given:
        marks.append("blockDeviceMappings")
        given = {"blockDeviceMappings": UBUNTU_VOLUMES}
    if not terms:
        marks.append("incompatible")
        sentence = "it names no images, so no node is launched from it: name Ubuntu's in amiSelectorTerms"
        notes.append(Note(sentence, "spec.amiSelectorTerms"))
    fields = {"amiFamily": "AL2", "amiSelectorTerms": list(terms) or [{"id": NO_IMAGE}], **given}
    return fields, {UBUNTU: ",".join(marks)}, notes


def family_problem(family: str, terms: Sequence[object], path: str) -> Problem | None:
    """Custom is a family only together with images."""
    return Problem(path, "is required with amiFamily Custom") if family == "Custom" and not terms else None


def is_incompatible(annotations: Mapping[str, str]) -> bool:
    """Whether the class must not be used before its images are named."""
    return "incompatible" in annotations.get(UBUNTU, "").split(",")


def incompatible_status(status: Mapping[str, Any]) -> Manifest:
    """The status of a class that must not be used."""
    said = {"status": "False", "reason": "AMINotFound", "lastTransitionTime": "1970-01-01T00:00:00Z"}
    message = "amiFamily Ubuntu is no more, and no images are named: name them in amiSelectorTerms"
    conditions = [{"type": kind, "message": message, **said} for kind in (AMIS_READY, READY)]
    return {**status, "conditions": conditions}
