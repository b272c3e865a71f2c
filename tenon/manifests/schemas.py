"""What the CustomResourceDefinitions say of single fields: which there are, and which values they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from tenon.apis.base import ApiModel
from tenon.apis.structural import root_schema
from tenon.apis.validation import Problem
from tenon.manifests.paths import Path, text_of

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
"""Fields that hold amounts by name, and are easily left out of their path."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


@cache
def schema_of(model: type[ApiModel]) -> Schema:
    """The schema of a kind as its CustomResourceDefinition has it, with the names of the metadata."""
    schema = root_schema(model)
    schema["properties"]["metadata"] = {"type": "object", "properties": {name: {_PRESERVE: True} for name in _METADATA}}
    return schema


def unknown_fields(body: Any, schema: Schema) -> Iterator[tuple[Path, Sequence[str]]]:
    """The fields that the API server does not know, each with those that it knows there."""
    waiting: list[tuple[Path, Any, Schema]] = [((), body, schema)]
    while waiting:
        path, value, known = waiting.pop()
        if known.get(_PRESERVE):
            continue
        if isinstance(value, dict):
            named, others = known.get("properties", {}), known.get("additionalProperties")
            for key, inner in reversed(value.items()):
                if key in named:
                    waiting.append(((*path, key), inner, named[key]))
                elif isinstance(others, dict):
                    waiting.append(((*path, key), inner, others))
                elif named and others is None:
                    yield (*path, key), list(named)
        elif isinstance(value, list) and isinstance(known.get("items"), dict):
            waiting += [((*path, index), inner, known["items"]) for index, inner in reversed([*enumerate(value)])]


def unknown_problem(path: Path, known: Sequence[str]) -> Problem:
    """An unknown field as a sentence, with the one that was perhaps meant."""
    near = "group" if path[-1] == "apiVersion" and "group" in known else nearest(str(path[-1]), known)
    if near is None and len(known) == 1 and known[0] in _AMOUNTS:
        near = ".".join(map(str, (*path[-2:-1], known[0], path[-1])))
    return Problem(text_of(path), f"is no field here: {f'did you mean {near}?' if near else 'leave it out'}")


def nearest(given: str, known: Sequence[str]) -> str | None:
    """The name that somebody probably meant; None when none is near."""
    folded = {name.casefold(): name for name in known}
    if given.strip().casefold() in folded:
        return folded[given.strip().casefold()]
    found = get_close_matches(given, known, 1, 0.75)
    return found[0] if found else None


def choices_at(schema: Schema, path: Path) -> Sequence[str]:
    """The texts that a field takes; empty where it takes any."""
    for part in path:
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        schema = inner if inner is not None else schema.get("additionalProperties") or {}
    return [choice for choice in schema.get("enum", ()) if isinstance(choice, str)]
