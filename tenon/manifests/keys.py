"""Finds keys that YAML reads as another type: kubectl sends ``y: a`` as ``"true": a``."""

from __future__ import annotations

from collections.abc import Iterator

from tenon.manifests.documents import Item
from tenon.manifests.paths import Path
from tenon.manifests.yaml_scalars import UnreadableError, plain_value


def misread_keys(item: Item) -> Iterator[tuple[Path, str]]:
    """Yield the path of each unquoted key that kubectl reads differently, with the text that kubectl reads."""
    if item.place is None:
        return
    text = item.document.lines.text
    for path, place in item.place.walk():
        if not path or place.key is None or text[slice(*place.key)] != path[-1]:
            continue  # quoted, anchored or not a key
        read = _as_key(str(path[-1]))
        if read != path[-1]:
            yield path, read


def _as_key(text: str) -> str:
    try:
        value = plain_value(text)
    except UnreadableError:
        return text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
