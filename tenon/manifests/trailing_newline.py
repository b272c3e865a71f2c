"""The line break behind a document: a text that is the last thing in a file without one must not gain it."""

from __future__ import annotations

import re
from typing import Any

from tenon.manifests.source_map import find_documents
from tenon.manifests.yaml_values import read_documents
from tenon.manifests.yaml_writer import as_yaml

_HEADER = re.compile(r"[|>][-+0-9]*")


def closed(text: str, value: Any) -> str:
    """The text of a document in block style with a line break behind it, such that it still holds ``value``."""
    if text.endswith("\n"):
        return text
    for candidate in (f"{text}\n", f"{_without_last_break(text)}\n"):
        if [found for _, found in read_documents(candidate)] == [value]:
            return candidate
    return as_yaml(value)


def _without_last_break(text: str) -> str:
    """The text whose last block scalar says that the line breaks behind it are no part of it."""
    roots = [stretch.root for stretch in find_documents(text) if stretch.root is not None]
    start = max((place.start for root in roots for _, place in root.walk() if place.entries is None), default=0)
    header = _HEADER.match(text, start)
    if header is None:
        return text
    return f"{text[:start]}{header[0].replace('+', '').replace('-', '')}-{text[header.end() :]}"
