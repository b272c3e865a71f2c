"""Converts AMI families: a family without AMI terms becomes an alias in v1, and v1 has no Ubuntu family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tenon.apis import labels
from tenon.apis.conditions import READY
from tenon.apis.ec2nodeclass import AMIS_READY
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.conversion import Note, without_empty
from tenon.apis.validation import FieldError
from tenon.apis.versions.nodeclasses import images_up, is_incompatible, ubuntu_up

OldFamily = Literal["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom"]

FIRST_VERSION_WITHOUT_AL2 = "1.33"
"""The Kubernetes version from which on AWS publishes no AL2 images: `tenon.ec2.families.al2` has the last before it."""


def convert_family(
    family: str, terms: Sequence[Mapping[str, Any]], volumes: Sequence[Any], annotations: Mapping[str, str]
) -> tuple[JsonObject, dict[str, str], list[str]]:
    """Return the AMI fields of the v1 class (with its volumes), the annotations to add, and the notes."""
    options = without_empty({"blockDeviceMappings": list(volumes)})
    images = without_empty({"amiFamily": family, "amiSelectorTerms": list(terms)})
    if family == "Ubuntu":
        fields = ubuntu_up({**images, **options})
        added = {labels.V1BETA1_UBUNTU: fields.pop("ubuntu")}
    else:
        fields = {**images_up({**images, "version": annotations.get(labels.ALIAS_VERSION)}), **options}
        fields.pop("version", None)
        added = {}
    return fields, added, family_notes(family, fields, added)


def family_notes(family: str, fields: Mapping[str, Any], added: Mapping[str, str]) -> list[str]:
    """Return the notes on the AMI fields and the added annotations of a v1 class that had this family."""
    if family == "Ubuntu":
        sentence = "amiFamily Ubuntu no longer exists: its nodes are set up as those of AL2, from images that you name"
        notes: list[str] = [Note(sentence, "spec.amiFamily")]
        if is_incompatible(added):
            sentence = "it names no images, so no node is launched from it: name Ubuntu's in amiSelectorTerms"
            notes.append(Note(sentence, "spec.amiSelectorTerms"))
        return notes
    if "amiFamily" not in fields:
        alias = fields["amiSelectorTerms"][0]["alias"]
        sentence = f"amiFamily {family} without AMIs is the alias {alias} now"
        if family == "AL2":
            end = FIRST_VERSION_WITHOUT_AL2
            sentence += f": AL2 has no images from Kubernetes {end} on, so use al2023@latest there"
        return [Note(sentence, "spec.amiSelectorTerms", ended_field="amiFamily")]
    taint = f"{labels.UNREGISTERED_TAINT[0]}:{labels.UNREGISTERED_TAINT[1]}"
    note = Note(f"nodes of Custom images must come up with the taint {taint} now", "spec.amiFamily")
    return [note] if family == "Custom" else []


def family_problem(family: str, terms: Sequence[object], path: str) -> FieldError | None:
    """The family Custom requires AMI terms."""
    return FieldError(path, "is required with amiFamily Custom") if family == "Custom" and not terms else None


def incompatible_status(status: Mapping[str, Any]) -> JsonObject:
    """The status of a class from which no node may be launched."""
    condition = {"status": "False", "reason": "AMINotFound", "lastTransitionTime": "1970-01-01T00:00:00Z"}
    message = "amiFamily Ubuntu no longer exists, and no images are named: name them in amiSelectorTerms"
    conditions = [{"type": kind, "message": message, **condition} for kind in (AMIS_READY, READY)]
    return {**status, "conditions": conditions}
