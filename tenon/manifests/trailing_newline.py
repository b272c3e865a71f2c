"""Adds the final line break of a document without changing the value of a block scalar at its end."""

from __future__ import annotations

import re
from typing import Any

from tenon.manifests.source_map import find_documents
from tenon.manifests.yaml_values import read_documents
from tenon.manifests.yaml_writer import as_yaml

_HEADER = re.compile(r"[|>][-+0-9]*")


def closed(text: str, value: Any) -> str:
    """Return the text of a block-style document with a final line break, so that it still holds ``value``."""
    if text.endswith("\n"):
        return text
    for candidate in (f"{text}\n", f"{_without_last_break(text)}\n"):
        if [document for _, document in read_documents(candidate)] == [value]:
            return candidate
    return as_yaml(value)


def _without_last_break(text: str) -> str:
    """Change the last block scalar's header to strip its final line breaks."""
    roots = [stretch.root for stretch in find_documents(text) if stretch.root is not None]
    start = max((place.start for root in roots for _, place in root.walk() if place.entries is None), default=0)
    header = _HEADER.match(text, start)
    if header is None:
        return text
    return f"{text[:start]}{header[0].replace('+', '').replace('-', '')}-{text[header.end() :]}"
