"""The result of a conversion, and the steps that the conversions of all kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tenon.apis import labels
from tenon.apis.base import ApiModel, FaultKind, as_stored
from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.managed import KIND
from tenon.apis.validation import FieldError, unreadable_fields

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
"""Annotations that have no meaning, or a different meaning, on the v1 object."""


class Note(str):
    """A sentence that explains a change to the user, and the field of the v1 object that it concerns."""

    __slots__ = ("ended_field", "path")
    path: str
    ended_field: str
    """The name of the field of the old object that ends, which the sentence explains; empty if it explains no end."""

    def __new__(cls, sentence: str, path: str = "", *, ended_field: str = "") -> Self:
        """``path`` is empty if the note concerns the whole object."""
        note = super().__new__(cls, sentence)
        note.path, note.ended_field = path, ended_field
        return note


class Renamed(Note):
    """A note that a setting has another name now."""

    __slots__ = ("old", "variable")
    old: str
    """The setting of before."""
    variable: str
    """The environment variable that it is now."""

    def __new__(cls, old: str, variable: str) -> Self:
        """Return the note about a setting."""
        note = super().__new__(cls, f"{old} is {variable} now")
        note.old, note.variable = old, variable
        return note


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion. It has no manifests if it has problems."""

    manifests: Sequence[JsonObject] = ()
    """The v1 objects: the converted object first, then the objects that had to be created with it."""
    notes: Sequence[str] = ()
    """Sentences that explain the change to the user. A `Note` names the field that it concerns."""
    problems: Sequence[FieldError] = ()


_COMMON = ("metadata.labels.*", "metadata.annotations.*", "status")
"""Fields that the conversions of all kinds read."""


def stored(
    model: type[ApiModel], manifest: Mapping[str, Any], fields: Iterable[str]
) -> tuple[JsonObject, list[FieldError]]:
    """Return the manifest as the API server stores it, and the problems in the fields that its conversion reads.

    Problems in other fields show up in v1, where these fields are the same. So the conversion rejects nothing that v1
    accepts.
    """
    problems = unreadable_fields(model, manifest, (*_COMMON, *fields))
    if "spec" in model.model_fields and manifest.get("spec") is None and not problems:
        problems = [FieldError("spec", "is required", FaultKind.MISSING)]
    return (_without_nulls(manifest) if not problems else {}), problems


def _without_nulls(fields: Mapping[str, Any]) -> JsonObject:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in as_stored(dict(fields)).items()
    }


def name_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of an object; empty if it has none."""
    return str(field_at(manifest, "metadata", "name") or "")


def metadata_of(manifest: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> JsonObject:
    """Return the metadata of the v1 object: labels under their new names, without obsolete annotations."""
    old = manifest.get("metadata") or {}
    kept_annotations = {key: value for key, value in (old.get("annotations") or {}).items() if key not in _GONE}
    metadata = {**old, "annotations": {**kept_annotations, **(annotations or {})}}
    if old.get("labels"):
        metadata["labels"] = renamed(old["labels"])
    if not metadata["annotations"]:
        del metadata["annotations"]
    return metadata


def renamed(labels_: Mapping[str, Any]) -> JsonObject:
    """Rename the label of the Provisioner's name to the label of the NodePool's name."""
    return {labels.NODEPOOL if key == PROVISIONER_NAME else key: value for key, value in labels_.items()}


def class_reference(name: str) -> JsonObject:
    """Return the v1 reference to an EC2NodeClass."""
    return {"group": labels.AWS_GROUP, "kind": NODE_CLASS_KIND, "name": name}


def without_empty(fields: Mapping[str, Any]) -> JsonObject:
    """Drop the fields that are null or empty."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def format_seconds(seconds: int) -> str:
    """Format seconds as a readable duration: ``720h``, ``15m``, ``30s``."""
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def listed(names: Iterable[str]) -> str:
    """Return the names in order, joined for a sentence."""
    return ", ".join(sorted(names))
