"""What a conversion answers, and the steps that the conversions of all kinds share."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tenon.apis import labels
from tenon.apis.base import ApiModel, as_stored
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import KIND
from tenon.apis.validation import Problem, parse, unreadable_fields

NODE_CLASS_KIND = KIND
PROVISIONER_NAME = labels.PROVISIONER

_GONE = frozenset(
    {
        f"{labels.GROUP}/provisioner-hash",
        f"{labels.GROUP}/nodepool-hash",
        f"{labels.GROUP}/nodepool-hash-version",
        f"{labels.GROUP}/linked",
        f"{labels.GROUP}/managed-by",
        f"{labels.GROUP}/emptiness-timestamp",
        f"{labels.AWS_GROUP}/nodetemplate-hash",
        f"{labels.AWS_GROUP}/ec2nodeclass-hash",
        f"{labels.AWS_GROUP}/ec2nodeclass-hash-version",
        labels.V1BETA1_KUBELET,
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)
"""Annotations that mean nothing, or something else, for the v1 object."""

ModelT = TypeVar("ModelT", bound=ApiModel)


class Note(str):
    """What a person should know of a change, in a sentence, with the field of the v1 object that it is about."""

    __slots__ = ("path",)
    path: str

    def __new__(cls, sentence: str, path: str = "") -> Note:
        """``path`` is empty for what is about the whole object."""
        note = super().__new__(cls, sentence)
        note.path = path
        return note


class OldMetadata(ApiModel):
    """Of the metadata, what is changed."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class OldObject(ApiModel):
    """What all old objects have."""

    metadata: OldMetadata = OldMetadata()


@dataclass(frozen=True, slots=True)
class Converted:
    """The answer of a conversion; with problems there are no manifests."""

    manifests: Sequence[JsonObject] = ()
    """v1 objects: the one that the old object became, then those that had to be made beside it."""
    notes: Sequence[str] = ()
    """What a person should know of the change, a sentence each; a `Note` says which field it is about."""
    problems: Sequence[Problem] = ()


def read(model: type[ModelT], manifest: Mapping[str, Any]) -> tuple[ModelT | None, list[Problem]]:
    """The old manifest as its model; None where there are problems."""
    found, problems = parse(model, manifest)
    return (None, problems) if problems else (found, [])


_COMMON = ("metadata.labels.*", "metadata.annotations.*", "status")
"""Fields that the conversions of all kinds read."""


def stored(
    model: type[ApiModel], manifest: Mapping[str, Any], fields: Iterable[str]
) -> tuple[JsonObject, list[Problem]]:
    """The manifest as the API server stores it, and what is wrong in the fields that its conversion reads.

    What is wrong in other fields shows in v1, where they are the same: nothing is refused here that v1 would take.
    """
    problems = unreadable_fields(model, manifest, (*_COMMON, *fields))
    return (_without_nulls(manifest) if not problems else {}), problems


def _without_nulls(fields: Mapping[str, Any]) -> JsonObject:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in as_stored(dict(fields)).items()
    }


def name_of(manifest: Mapping[str, Any]) -> str:
    """The name of an object; empty when it has none."""
    metadata = manifest.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def metadata_of(manifest: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> JsonObject:
    """The metadata of the v1 object: labels under their new names, annotations without those that went."""
    old = manifest.get("metadata") or {}
    kept = {key: value for key, value in (old.get("annotations") or {}).items() if key not in _GONE}
    found = {**old, "annotations": {**kept, **(annotations or {})}}
    if old.get("labels"):
        found["labels"] = renamed(old["labels"])
    if not found["annotations"]:
        del found["annotations"]
    return found


def renamed(given: Mapping[str, Any]) -> JsonObject:
    """Labels with the Provisioner's name as that of the NodePool."""
    return {labels.NODEPOOL if key == PROVISIONER_NAME else key: value for key, value in given.items()}


def class_reference(name: str) -> JsonObject:
    """The v1 reference to an EC2NodeClass."""
    return {"group": labels.AWS_GROUP, "kind": NODE_CLASS_KIND, "name": name}


def without_empty(fields: Mapping[str, Any]) -> JsonObject:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def text_of_seconds(seconds: int) -> str:
    """A duration as people write it: ``720h``, ``15m``, ``30s``."""
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def listed(names: Iterable[str]) -> str:
    """Names for a sentence."""
    return ", ".join(sorted(names))
