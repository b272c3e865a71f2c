"""Explains a conversion in YAML comments: which fields moved, changed, were added or were left out.

Which comments users wrote, and which field each one describes, is our own code, because ruamel.yaml attaches a comment
to the token before it, not to the field that it describes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from tenon.apis.duration import NEVER_TEXT
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.conversion import Note, name_of
from tenon.manifests.documents import Item
from tenon.manifests.field_moves import Moves, moves_of, new_path, old_path
from tenon.manifests.paths import Path, has, path_of, text_of, value_at
from tenon.manifests.yaml_writer import Comments


@dataclass(frozen=True, slots=True)
class UserComment:
    """A comment. ``path`` is None if it comes after everything else."""

    path: Path | None
    text: str
    inline: bool
    """True if the comment is on the same line as the field."""


def find_comments(item: Item) -> Iterator[UserComment]:
    """Yield the comments in the text of an object, in order."""
    if item.place is None:
        return
    document, lines = item.document, item.document.lines
    text = lines.text
    whole = item.place is document.root
    start, end = (document.start, document.end) if whole else (item.place.start, item.place.end)
    written = [(path, place) for path, place in item.place.walk() if path]
    texts = sorted([(p.start, p.end) for _, p in written if p.entries is None] + [p.key for _, p in written if p.key])
    fields = sorted((place.begin, len(path), path) for path, place in written)
    begins = [begin for begin, _, _ in fields]
    offset = start
    while (offset := text.find("#", offset, end)) >= 0:
        index = bisect_right(texts, (offset, len(text))) - 1
        if index >= 0 and offset < texts[index][1]:
            offset = texts[index][1]
            continue
        first, last = lines.bounds(lines.number(offset))
        if offset > first and text[offset - 1] not in " \t":
            offset += 1
            continue
        comment = text[offset + 1 : last].strip()
        at = bisect_left(begins, first)
        if at < len(fields) and begins[at] < offset:
            yield UserComment(fields[bisect_right(begins, begins[at]) - 1][2], comment, True)
        else:
            yield UserComment(fields[at][2] if at < len(fields) else None, comment, False)
        offset = last


SERVER_SET = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
"""Metadata fields that the API server sets, and refuses in a new object."""
_WRITTEN_OUT = "the default of that time, written out"
_NEW: Mapping[str, str] = {
    "metadata.annotations": "for the way back to v1beta1",
    "spec.template.spec.expireAfter": _WRITTEN_OUT,
    "spec.expireAfter": _WRITTEN_OUT,
    "spec.disruption": _WRITTEN_OUT,
    "spec.disruption.consolidationPolicy": "consolidation was not enabled",
    "spec.disruption.budgets": "there were none: all may leave at once",
    "spec.amiFamily": _WRITTEN_OUT,
    "spec.blockDeviceMappings": "what Ubuntu had",
    "spec.metadataOptions": _WRITTEN_OUT,
}
"""Why a new field exists, by the path of the field or of one that contains it."""
_KUBELET = ("kubelet", "kubeletConfiguration")
"""Fields whose settings move to the EC2NodeClass, which has its own comment."""
_MAX_VALUE_LENGTH = 60
_MAX_NOTE_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Changed:
    """A v1 object with the comments that explain it."""

    body: JsonObject
    comments: Comments


def explain(item: Item, manifests: Sequence[JsonObject], notes: Sequence[str]) -> list[Changed]:
    """Return each v1 object that an item became, with comments that explain every change."""
    changed_manifests = [
        Changed(_fresh(manifest, item, first=not number), Comments()) for number, manifest in enumerate(manifests)
    ]
    all_moves = [moves_of(item.kind, item.api_version, changed.body["kind"]) for changed in changed_manifests]
    _carry_comments(item, changed_manifests, all_moves)
    for number, changed in enumerate(changed_manifests):
        if number:
            changed.comments.add_above((), _why_made(item, changed_manifests[0].body, changed.body))
        elif changed.body["kind"] != item.kind:
            changed.comments.add_above((), f"was {item.subject} ({item.api_version})")
        elif changed.body["apiVersion"] != item.api_version:
            changed.comments.add_inline(("apiVersion",), f"was {item.api_version}")
    gone_paths = [text_of(path) for path in _gone(item.body, changed_manifests, all_moves, notes)]
    if gone_paths:
        _put_wrapped(changed_manifests[0].comments, (), f"left out: {', '.join(gone_paths)}")
    noted = _place_notes(changed_manifests, notes)
    for number, (changed, moves) in enumerate(zip(changed_manifests, all_moves, strict=True)):
        if number and not has(item.body, ("spec", "provider")):
            continue  # it copies another document's object
        skipped = noted[number] | _comment_moves(item.body, changed, moves)
        status = _compare(changed.body, (), item.body, moves, skipped, changed.comments)
        assert status != "new"
    return changed_manifests


def _why_made(item: Item, pool: JsonObject, new_object: JsonObject) -> str:
    """The comment on an additional object that the conversion created."""
    if has(item.body, ("spec", "provider")):
        return f"made for {item.subject}"
    source = name_of(new_object).removesuffix(f"-{name_of(pool)}")
    return f"a copy of EC2NodeClass {source} with the kubelet settings of NodePool {name_of(pool)}"


def _fresh(manifest: JsonObject, item: Item, *, first: bool) -> JsonObject:
    """Drop the fields that the API server set, if the result is a different object than the original."""
    same = first and manifest["kind"] == item.kind
    dropped = ("managedFields",) if same else SERVER_SET
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in dropped}
    if metadata.get("annotations") == {}:
        del metadata["annotations"]
    told_by_the_user = {key: value for key, value in manifest.items() if key != "status" or "status" in item.body}
    return {**told_by_the_user, "metadata": metadata}


def _carry_comments(item: Item, changed_objects: Sequence[Changed], all_moves: Sequence[Moves]) -> None:
    """Carry the user's own comments over to the fields that their fields became."""
    for comment in find_comments(item):
        if comment.path is None:
            changed_objects[0].comments.below.append(comment.text)
            continue
        for changed, moves in zip(changed_objects, all_moves, strict=True):
            path = _follow(comment.path, item.body, changed.body, moves)
            if has(changed.body, path):
                add_comment = changed.comments.add_inline if comment.inline else changed.comments.add_above
                add_comment(path, comment.text)
                break
        else:
            changed_objects[0].comments.add_above((), f"{text_of(comment.path)}: {comment.text}")


def _follow(path: Path, old: JsonObject, new: JsonObject, moves: Moves) -> Path:
    """Find a field's new path. List entries are matched by value, because earlier entries may have been removed."""
    at = next((index for index, part in enumerate(path) if isinstance(part, int)), len(path))
    now = new_path(path[:at], moves)
    if at == len(path) or not has(new, now) or not isinstance(entries := value_at(new, now), list):
        return new_path(path, moves)
    entry = value_at(old, path[: at + 1])
    return (*now, entries.index(entry), *path[at + 1 :]) if entry in entries else now


def _place_notes(changed_objects: Sequence[Changed], notes: Sequence[str]) -> list[set[Path]]:
    """Put each note on the field that it describes.

    Returns:
        For each object, the paths that need no further comment.
    """
    noted: list[set[Path]] = [set() for _ in changed_objects]
    for note in notes:
        path_text = note.path if isinstance(note, Note) else ""
        number, path = next(
            (
                (number, path)
                for number, changed in enumerate(changed_objects)
                if path_text and has(changed.body, path := path_of(path_text, changed.body))
            ),
            (0, ()),
        )
        _put_wrapped(changed_objects[number].comments, path, note)
        if path:
            noted[number].add(path)
    return noted


def _put_wrapped(comments: Comments, path: Path, text: str) -> None:
    for line in wrap(text, _MAX_NOTE_WIDTH, break_long_words=False, break_on_hyphens=False):
        comments.add_above(path, line)


def _comment_moves(old: JsonObject, changed: Changed, moves: Moves) -> set[Path]:
    paths = set()
    for before, now in moves:
        stayed = (*before[:-2], before[-1]) if before[:2] == ("spec", "provider") else before
        moved = has(old, before) and has(changed.body, now) and not has(changed.body, stayed)
        if len(now) < 2 or not moved:
            continue
        value = value_at(old, before)
        shown = "" if isinstance(value, (dict, list)) else f": {_short(value)}"
        changed.comments.add_inline(now, f"was {text_of(before)}{shown}")
        if value != value_at(changed.body, now):
            paths.add(now)
    return paths


def _compare(value: Any, path: Path, old: Any, moves: Moves, skipped: set[Path], comments: Comments) -> str:
    """Comment on each value that differs from the old object.

    Returns ``new`` if the whole value is new; the caller then comments on it once.
    """
    if path in skipped or path in (("apiVersion",), ("kind",)):
        return "commented"
    before = old_path(path, moves)
    is_present = has(old, before)
    if is_present and value_at(old, before) == value:
        return "same"
    if isinstance(value, dict) and value:
        inner = {(*path, k): _compare(v, (*path, k), old, moves, skipped, comments) for k, v in value.items()}
        if set(inner.values()) == {"new"} and not is_present and path != ("spec", "disruption"):
            return "new"
        for place in (place for place, status in inner.items() if status == "new"):
            comments.add_inline(place, _why_new(place, value_at(value, place[len(path) :])))
        return "commented"
    if not is_present:
        return "new"
    if isinstance(value, list):
        was = value_at(old, before)
        was = was if isinstance(was, list) else []
        for index, entry in enumerate(value):
            if entry not in was:
                comments.add_inline((*path, index), "new")
        if removed := [_name(entry) for entry in was if entry not in value]:
            comments.add_inline(path, f"left out: {', '.join(removed)}")
        return "commented"
    comments.add_inline(path, f"was {_short(value_at(old, before))}")
    return "commented"


def _name(entry: Any) -> str:
    """Short name of a list entry, for use in a comment."""
    entry_name = entry.get("type", entry.get("key", entry.get("name"))) if isinstance(entry, dict) else entry
    return _short(entry if entry_name is None else entry_name)


def _why_new(path: Path, value: Any) -> str:
    if path[-1] == "nodeClassRef":
        return "the provider is now a separate EC2NodeClass"
    if path[-2:-1] == ("nodeClassRef",):
        return _WRITTEN_OUT
    if value == NEVER_TEXT:
        return "it was not set, which meant never"
    for length in range(len(path), 0, -1):
        if reason := _NEW.get(text_of(path[:length])):
            return reason
    return "new"


def _gone(
    old: JsonObject, changed_objects: Sequence[Changed], all_moves: Sequence[Moves], notes: Sequence[str]
) -> Iterator[Path]:
    """Fields of the old object that are missing from the new objects and not covered by a note."""
    ends = {before for moves in all_moves for before, now in moves if len(now) > 1}
    explained = {note.ended_field for note in notes if isinstance(note, Note)}
    waiting: list[tuple[Path, Any]] = [((key,), value) for key, value in reversed(old.items())]
    while waiting:
        path, value = waiting.pop()
        new_places = [new_path(path, moves) for moves in all_moves]
        is_kept = any(has(changed.body, place) for changed, place in zip(changed_objects, new_places, strict=True))
        inner = path == ("metadata", "annotations") or (is_kept and path not in ends)
        inner = inner or any(path == end[: len(path)] and path != end for end in ends)
        if inner and isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in reversed(value.items())]
        elif not (is_kept or value in (None, {}, []) or path[-1] in _KUBELET or path[-1] in explained):
            yield path


def _short(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}..."
