"""Converts an object to another version and back without losing anything.

An object is divided into parts. A part has its fields in either version and a function for each direction; all other
fields are the same in both versions. If a function loses information, so that converting back would not restore the
part, an annotation of the converted object keeps the original values. Converting back restores these values, unless the
converted values have changed since: then the change wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis.json_object import JsonObject, parse_json_object
from tenon.errors import TenonError

Values = dict[str, Any]
"""The present fields of a part, by their names within the part."""
Path = tuple[str, ...]
Change = Callable[[Any], Any]
Accepts = Callable[[str, Any], bool]
"""Whether v1 accepts a value in the field of this name."""


def anything(name: str, value: Any) -> bool:  # noqa: ARG001 - a Taken
    """Accept every value."""
    return True


class UnconvertibleError(TenonError):
    """The object is malformed and cannot be converted. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class Part:
    """Fields that are converted together. ``up`` converts to v1, ``down`` to v1beta1.

    With ``by_item`` the part is a single list, and the functions convert one item, a mapping. ``takes`` checks each
    field that an annotation adds to a v1 object, because the API server validates only the rest.
    """

    name: str
    v1: Mapping[str, Path]
    v1beta1: Mapping[str, Path]
    up: Change
    down: Change
    by_item: bool = False
    takes: Accepts = anything


@dataclass(frozen=True, slots=True)
class Side:
    """One version in a conversion: where its fields are, and the annotation that keeps what it cannot express."""

    fields: Callable[[Part], Mapping[str, Path]]
    keeps: str


def convert(body: JsonObject, parts: Sequence[Part], source: Side, target: Side, *, upwards: bool) -> None:
    """Convert all parts of the object, in place.

    Raises:
        UnconvertibleError: a field that contains other fields is not a mapping.
    """
    kept_values = _pop_kept(body, source.keeps)
    keep: Values = {}
    for part in parts:
        forward, back = (part.up, part.down) if upwards else (part.down, part.up)
        part_values = _take(body, source.fields(part))
        takes = part.takes if upwards else anything
        if part.by_item:
            new_items, lost = _items(part_values, kept_values.get(part.name), forward, back, takes)
        else:
            new_items = _restored(part_values, kept_values.get(part.name), target.fields(part), forward, back, takes)
            lost = part_values if back(new_items) != part_values else {}
        if lost:
            keep[part.name] = lost
        for name, value in new_items.items():
            _put(body, target.fields(part)[name], value)
    if keep:
        _put(body, ("metadata", "annotations", target.keeps), text_of(keep))


def text_of(value: Any) -> str:
    """Serialize a value as JSON for an annotation. Equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _restored(
    values: Values, kept_value: Any, fields: Mapping[str, Path], forward: Change, back: Change, takes: Accepts
) -> Values:
    """Return the original values if they are kept and still match the given values; otherwise convert the values."""
    fits = isinstance(kept_value, dict) and kept_value.keys() <= fields.keys() and _image(kept_value, back) == values
    if fits and _added_is_taken(kept_value, values, takes):
        return dict(kept_value)
    return dict(forward(values))


def _items(values: Values, kept_value: Any, forward: Change, back: Change, takes: Accepts) -> tuple[Values, Values]:
    """Convert a list item by item. Return the result, and by index the items that converting back would not restore."""
    converted_values: Values = {}
    lost: Values = {}
    for name, items in values.items():
        if not isinstance(items, list):
            converted_values[name] = items
            continue
        origins = _origins(items, kept_value if isinstance(kept_value, dict) else {}, back, takes)
        results = [origins.get(at, forward(item) if isinstance(item, dict) else item) for at, item in enumerate(items)]
        converted_values[name] = results
        for at, item in enumerate(items):
            if isinstance(item, dict) and back(results[at]) != item:
                lost[str(at)] = item
    return converted_values, lost


def _added_is_taken(kept_values: Values, image: Values, takes: Accepts) -> bool:
    """Whether v1 accepts the kept values that differ from what the object shows."""
    return all(takes(name, value) for name, value in kept_values.items() if name not in image or image[name] != value)


def _origins(items: Sequence[Any], kept_values: Mapping[str, Any], back: Change, takes: Accepts) -> dict[int, Any]:
    """Return the kept originals of the items, by index. Look at the original index first, then for a moved item."""
    if not kept_values:
        return {}
    images = {
        key: image
        for key, item in kept_values.items()
        if isinstance(item, dict) and (image := _image(item, back)) is not None and _added_is_taken(item, image, takes)
    }
    origins = {
        at: kept_values[str(at)] for at, item in enumerate(items) if str(at) in images and images[str(at)] == item
    }
    moved: dict[str, list[str]] = {}
    for key in reversed(images):
        if not (key.isdecimal() and int(key) in origins):
            moved.setdefault(text_of(images[key]), []).append(key)
    for at, item in enumerate(items):
        if at not in origins and (keys := moved.get(text_of(item))):
            origins[at] = kept_values[keys.pop()]
    return origins


def _image(kept_value: Any, back: Change) -> Any:
    """Convert a kept value back for comparison; None if that fails, because users can edit the annotation."""
    try:
        return back(kept_value)
    except (UnconvertibleError, AttributeError, TypeError):
        return None


def _pop_kept(body: JsonObject, annotation: str) -> JsonObject:
    """Remove the annotation and return what it keeps."""
    annotations = (body.get("metadata") or {}).get("annotations")
    if not isinstance(annotations, dict) or annotation not in annotations:
        return {}
    kept_values = parse_json_object(annotations[annotation])
    if kept_values is None:
        return {}
    _take(body, {annotation: ("metadata", "annotations", annotation)})
    return kept_values


def _take(body: JsonObject, fields: Mapping[str, Path]) -> Values:
    """Remove these fields, and mappings that become empty, from the object and return the values."""
    taken_values: Values = {}
    for name, path in fields.items():
        parents = [body]
        for depth, step in enumerate(path[:-1]):
            inner = parents[-1].get(step)
            if inner is None:
                break
            if not isinstance(inner, dict):
                raise UnconvertibleError(f"{'.'.join(path[: depth + 1])} is not a mapping")
            parents.append(inner)
        else:
            if path[-1] not in parents[-1]:
                continue
            taken_values[name] = parents[-1].pop(path[-1])
            for depth in range(len(parents) - 1, 0, -1):
                if parents[depth]:
                    break
                del parents[depth - 1][path[depth - 1]]
    return taken_values


def _put(body: JsonObject, path: Path, value: Any) -> None:
    place = body
    for step in path[:-1]:
        inner = place.get(step)
        if not isinstance(inner, dict):
            inner = place[step] = {}
        place = inner
    place[path[-1]] = value
