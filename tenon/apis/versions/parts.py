"""How an object is taken to another version and back without losing anything.

An object is cut into parts. A part has its fields in either version, and a function for each direction; what belongs to
no part is the same in both. A function may lose something: then the way back would not give what was there, and the
part's values are kept as they were, in an annotation of the converted object. On the way back they are put in their
place again, unless what was made of them has been changed since: then that change is what its author wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis.json_object import JsonObject

Values = dict[str, Any]
"""The fields of a part that are there, by their names within the part."""
Path = tuple[str, ...]
Change = Callable[[Any], Any]
Taken = Callable[[str, Any], bool]
"""Whether a field of v1, by its name, takes a value."""


def anything(name: str, value: Any) -> bool:  # noqa: ARG001 - a Taken
    """Every value is taken."""
    return True


class Unconvertible(Exception):
    """The object is built so that it cannot be converted; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Part:
    """Fields that are converted together; ``up`` leads to v1, ``down`` to v1beta1.

    With ``by_item`` the part is one list, and the functions convert one item of it, a mapping. ``takes`` is asked
    before what an annotation adds is put into v1, field by field: the API server has looked at the rest alone.
    """

    name: str
    v1: Mapping[str, Path]
    v1beta1: Mapping[str, Path]
    up: Change
    down: Change
    by_item: bool = False
    takes: Taken = anything


@dataclass(frozen=True, slots=True)
class Side:
    """A version as one end of a conversion: where its fields are, and the annotation that keeps what it cannot say."""

    fields: Callable[[Part], Mapping[str, Path]]
    keeps: str


def convert(body: JsonObject, parts: Sequence[Part], source: Side, target: Side, *, upwards: bool) -> None:
    """Convert all parts of the object, in place.

    Raises:
        Unconvertible: a field that holds others is no mapping.
    """
    kept = _unkeep(body, source.keeps)
    keep: Values = {}
    for part in parts:
        there, back = (part.up, part.down) if upwards else (part.down, part.up)
        given = _take(body, source.fields(part))
        takes = part.takes if upwards else anything
        if part.by_item:
            made, lost = _items(given, kept.get(part.name), there, back, takes)
        else:
            made = _restored(given, kept.get(part.name), target.fields(part), there, back, takes)
            lost = given if back(made) != given else {}
        if lost:
            keep[part.name] = lost
        for name, value in made.items():
            _put(body, target.fields(part)[name], value)
    if keep:
        _put(body, ("metadata", "annotations", target.keeps), text_of(keep))


def text_of(value: Any) -> str:
    """JSON for an annotation: the same value is always the same text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def mapping_of(text: Any) -> JsonObject | None:
    """The mapping that an annotation's JSON holds, None when it holds none."""
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _restored(
    given: Values, kept: Any, fields: Mapping[str, Path], there: Change, back: Change, takes: Taken
) -> Values:
    """What the values become: what they came from, where that is kept and they still are what was made of it."""
    fits = isinstance(kept, dict) and kept.keys() <= fields.keys() and _image(kept, back) == given
    if fits and _added_is_taken(kept, given, takes):
        return dict(kept)
    return dict(there(given))


def _items(given: Values, kept: Any, there: Change, back: Change, takes: Taken) -> tuple[Values, Values]:
    """A list, item by item; and by their places in it those items that the way back would not give."""
    made: Values = {}
    lost: Values = {}
    for name, items in given.items():
        if not isinstance(items, list):
            made[name] = items
            continue
        origins = _origins(items, kept if isinstance(kept, dict) else {}, back, takes)
        results = [origins.get(at, there(item) if isinstance(item, dict) else item) for at, item in enumerate(items)]
        made[name] = results
        for at, item in enumerate(items):
            if isinstance(item, dict) and back(results[at]) != item:
                lost[str(at)] = item
    return made, lost


def _added_is_taken(kept: Values, image: Values, takes: Taken) -> bool:
    """Whether v1 takes what is kept besides, or instead of, what the object shows."""
    return all(takes(name, value) for name, value in kept.items() if name not in image or image[name] != value)


def _origins(items: Sequence[Any], kept: Mapping[str, Any], back: Change, takes: Taken) -> dict[int, Any]:
    """What items came from, by place: looked for where it was first, then where somebody may have moved it."""
    if not kept:
        return {}
    images = {
        key: image
        for key, item in kept.items()
        if isinstance(item, dict) and (image := _image(item, back)) is not None and _added_is_taken(item, image, takes)
    }
    found = {at: kept[str(at)] for at, item in enumerate(items) if str(at) in images and images[str(at)] == item}
    moved: dict[str, list[str]] = {}
    for key in reversed(images):
        if not (key.isdecimal() and int(key) in found):
            moved.setdefault(text_of(images[key]), []).append(key)
    for at, item in enumerate(items):
        if at not in found and (keys := moved.get(text_of(item))):
            found[at] = kept[keys.pop()]
    return found


def _image(kept: Any, back: Change) -> Any:
    """What the way back makes of something that an annotation keeps; somebody may have written into it."""
    try:
        return back(kept)
    except (Unconvertible, AttributeError, TypeError):
        return None


def _unkeep(body: JsonObject, annotation: str) -> JsonObject:
    """What the annotation keeps; it is taken off."""
    annotations = (body.get("metadata") or {}).get("annotations")
    if not isinstance(annotations, dict) or annotation not in annotations:
        return {}
    kept = mapping_of(annotations[annotation])
    if kept is None:
        return {}
    _take(body, {annotation: ("metadata", "annotations", annotation)})
    return kept


def _take(body: JsonObject, fields: Mapping[str, Path]) -> Values:
    """The values of these fields, which are gone from the object then, as are mappings that held nothing else."""
    taken: Values = {}
    for name, path in fields.items():
        parents = [body]
        for depth, step in enumerate(path[:-1]):
            inner = parents[-1].get(step)
            if inner is None:
                break
            if not isinstance(inner, dict):
                raise Unconvertible(f"{'.'.join(path[: depth + 1])} is not a mapping")
            parents.append(inner)
        else:
            if path[-1] not in parents[-1]:
                continue
            taken[name] = parents[-1].pop(path[-1])
            for depth in range(len(parents) - 1, 0, -1):
                if parents[depth]:
                    break
                del parents[depth - 1][path[depth - 1]]
    return taken


def _put(body: JsonObject, path: Path, value: Any) -> None:
    place = body
    for step in path[:-1]:
        inner = place.get(step)
        if not isinstance(inner, dict):
            inner = place[step] = {}
        place = inner
    place[path[-1]] = value
