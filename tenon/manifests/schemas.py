"""Looks up fields in the CustomResourceDefinitions: which fields exist and which values they accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tenon.apis.base import ApiModel
from tenon.apis.structural import root_schema
from tenon.apis.validation import FieldError
from tenon.manifests.paths import Path, text_of
from tenon.sentences import nearest

Schema = Mapping[str, Any]

_METADATA = (
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_AMOUNTS = ("resources", "requests")
"""Fields that hold amounts by resource name. Users often leave this level out of the path."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


@cache
def schema_of(model: type[ApiModel]) -> Schema:
    """Schema of a kind from its CustomResourceDefinition, with the metadata fields added."""
    schema = root_schema(model)
    schema["properties"]["metadata"] = {"type": "object", "properties": {name: {_PRESERVE: True} for name in _METADATA}}
    return schema


def unknown_fields(body: Any, schema: Schema) -> Iterator[tuple[Path, Sequence[str]]]:
    """Yield each field that the schema does not know, with the fields that it knows at that place."""
    waiting: list[tuple[Path, Any, Schema]] = [((), body, schema)]
    while waiting:
        path, value, current_schema = waiting.pop()
        if current_schema.get(_PRESERVE):
            continue
        if isinstance(value, dict):
            properties, others = current_schema.get("properties", {}), current_schema.get("additionalProperties")
            for key, inner in reversed(value.items()):
                if key in properties:
                    waiting.append(((*path, key), inner, properties[key]))
                elif isinstance(others, dict):
                    waiting.append(((*path, key), inner, others))
                elif properties and others is None:
                    yield (*path, key), list(properties)
        elif isinstance(value, list) and isinstance(current_schema.get("items"), dict):
            waiting += [
                ((*path, index), inner, current_schema["items"]) for index, inner in reversed([*enumerate(value)])
            ]


def unknown_problem(path: Path, known_names: Sequence[str]) -> FieldError:
    """Describe an unknown field, with a suggestion if a similar field exists."""
    near = "group" if path[-1] == "apiVersion" and "group" in known_names else nearest(str(path[-1]), known_names)
    if near is None and len(known_names) == 1 and known_names[0] in _AMOUNTS:
        near = ".".join(map(str, (*path[-2:-1], known_names[0], path[-1])))
    if near is not None:
        advice = f"did you mean {near}?"
    elif "metadata" in known_names and path[-1] in _METADATA:
        advice = "it belongs to metadata, so indent it"
    else:
        advice = "leave it out"
    return FieldError(text_of(path), f"is not a field here: {advice}")


def choices_at(schema: Schema, path: Path) -> Sequence[str]:
    """The strings that a field accepts; empty if it accepts any."""
    for part in path:
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        schema = inner if inner is not None else schema.get("additionalProperties") or {}
    return [choice for choice in schema.get("enum", ()) if isinstance(choice, str)]
