"""Renames old labels, annotations and taints inside a text and leaves the rest of the text unchanged.

It is our own code because a ruamel.yaml round trip changes formatting outside of the edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.conversion import PROVISIONER_NAME
from tenon.apis.legacy.pods_and_nodes import KEPT_FROM_DISRUPTION, OLD_TAINT
from tenon.manifests.documents import Document, read
from tenon.manifests.paths import Path
from tenon.manifests.source_map import SourceRange
from tenon.manifests.trailing_newline import closed
from tenon.manifests.yaml_writer import MAX_WIDTH, Comments, with_comments

_RENAMED = {PROVISIONER_NAME: labels.NODEPOOL, **dict.fromkeys(KEPT_FROM_DISRUPTION, labels.DO_NOT_DISRUPT)}
"""Renamed keys of labels, selectors and annotations."""
SERVED_NO_MORE = ("HorizontalPodAutoscaler", "autoscaling/v2beta2")
"""Kind and version that often accompanies Provisioners. No API server has served it since 1.26."""
SERVED_INSTEAD = "autoscaling/v2"
"""The served version, which has the same fields."""
_NAMING = ("key", "topologyKey")
"""Fields whose value is the name of a label or taint."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a document: a renamed key, a replaced value, or only a comment (``new`` is None)."""

    path: Path
    of_key: bool
    new: str | None
    comment: str


def edits_of(body: JsonObject) -> list[Edit]:
    """Return the changes that an object of a kind other than Karpenter's needs."""
    edits: list[Edit] = []
    if (body.get("kind"), body.get("apiVersion")) == SERVED_NO_MORE:
        comment = f"was {SERVED_NO_MORE[1]}, which Kubernetes has not served since 1.26"
        edits.append(Edit(("apiVersion",), False, SERVED_INSTEAD, comment))
    waiting: list[tuple[Path, Any]] = [((), body)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            edits += _of_mapping(path, value)
            waiting += reversed([((*path, key), inner) for key, inner in value.items()])
        elif isinstance(value, list):
            waiting += reversed([((*path, index), inner) for index, inner in enumerate(value)])
    return edits


def _of_mapping(path: Path, value: JsonObject) -> Iterator[Edit]:
    taken_keys = set(value)
    for key in value:
        new = _RENAMED.get(key)
        if new is None:
            continue
        if new in taken_keys:
            yield Edit((*path, key), True, None, f"no longer needed: {new} is set as well")
        else:
            taken_keys.add(new)
            yield Edit((*path, key), True, new, f"was {key}")
    for name in _NAMING:
        if value.get(name) == PROVISIONER_NAME:
            yield Edit((*path, name), False, labels.NODEPOOL, f"was {PROVISIONER_NAME}")
    if value.get("key") == OLD_TAINT[0] and value.get("value", OLD_TAINT[1]) == OLD_TAINT[1]:
        yield Edit((*path, "key"), False, labels.DISRUPTED_TAINT[0], f"was {OLD_TAINT[0]}")
        if "value" in value:
            yield Edit((*path, "value"), False, "", f"was {OLD_TAINT[1]}: the taint has no value now")


def edited_body(body: JsonObject, edits: list[Edit]) -> JsonObject:
    """Return the object with the changes applied. Keys keep their order."""
    renamed = {edit.path: edit.new for edit in edits if edit.of_key and edit.new is not None}
    replaced = {edit.path: edit.new for edit in edits if not edit.of_key}

    def change(value: Any, path: Path) -> Any:
        if path in replaced:
            return replaced[path]
        if isinstance(value, dict):
            return {renamed.get((*path, key), key): change(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [change(inner, (*path, index)) for index, inner in enumerate(value)]
        return value

    edited: JsonObject = change(body, ())
    return edited


def edited_text(document: Document, edits: list[Edit]) -> str:
    """Return a document's text with the changes and a comment on each.

    Rewrite it only if editing in place is impossible.
    """
    edited_value = edited_body(document.value, edits)
    if not document.is_json and document.root is not None:
        text = _in_place(document, document.root, edits)
        if text is not None:
            again, findings = read(document.file, text)
            if not findings and len(again) == 1 and again[0].value == edited_value:
                return closed(text, edited_value)
    return commented_text(edited_value, edits)


def commented_text(body: JsonObject, edits: list[Edit]) -> str:
    """Write an already changed object as YAML, with a comment on each change."""
    comments = Comments()
    for edit in edits:
        path = (*edit.path[:-1], edit.new) if edit.of_key and edit.new else edit.path
        comments.add_inline(path, edit.comment)
    return with_comments(body, comments)


def _in_place(document: Document, root: SourceRange, edits: list[Edit]) -> str | None:
    """Edit the text in place. Return None if a field has no place of its own, for example behind an alias."""
    whole, lines = document.lines.text, document.lines
    spans: list[tuple[int, int, str]] = []
    comments: dict[int, list[str]] = {}
    for edit in edits:
        place = _place_of(root, edit.path)
        span = (place.key if edit.of_key else (place.start, place.end)) if place else None
        if span is None:
            return None
        if edit.new is not None:
            spans.append((*span, _like(whole[span[0] : span[1]], edit.new)))
        comments.setdefault(lines.number(span[0]), []).append(edit.comment)
    for number, comment in comments.items():
        first, last = lines.bounds(number)
        line = whole[first:last].rstrip("\r")
        text = "; ".join(dict.fromkeys(comment))
        above = whole[: max(first - 1, 0)].rpartition("\n")[2]
        if f"# {text}" in line or f"# {text}" in above:
            continue  # an earlier conversion already added this comment
        place = max((p for _, p in root.walk() if p.begin < last and p.entries is None), key=lambda p: p.end)
        indent = line[: len(line) - len(line.lstrip())]
        if "#" in line or place.end > first + len(line) or len(line) + len(text) > MAX_WIDTH - 12:
            spans.append((first, first, f"{indent}# {text}\n"))
        else:
            spans.append((first + len(line), first + len(line), f" # {text}"))
    parts, at = [], document.start
    for start, end, new in sorted(spans):
        if start < at:
            return None
        parts += [whole[at:start], new]
        at = end
    return "".join([*parts, whole[at : document.end]])


def _place_of(root: SourceRange, path: Path) -> SourceRange | None:
    place: SourceRange | None = root
    for part in path:
        place = place.inside(part) if place is not None else None
    return place


def _like(old: str, new: str) -> str:
    """Quote the new text in the same way as the old one."""
    quote = old[:1] if old[:1] in ("'", '"') else '"' if not new else ""
    return f"{quote}{new}{quote}"
