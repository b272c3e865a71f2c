"""Checks names, labels and annotations with the API server's rules for every kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tenon.apis.common import is_label_name, is_label_value
from tenon.apis.validation import FieldError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME_LENGTH = 253
_MAX_BYTES = 256 * 1024


def metadata_problems(body: Mapping[str, Any]) -> Iterator[FieldError]:
    """Return what the API server would refuse about an object's metadata, in addition to its model's checks."""
    metadata = body.get("metadata")
    if metadata is None:
        yield FieldError("metadata.name", "is required")
    if not isinstance(metadata, dict):
        return
    name = metadata.get("name")
    if name in (None, "") and not metadata.get("generateName"):
        yield FieldError("metadata.name", "is required")
    for field in ("name", "generateName"):
        given = metadata.get(field)
        text = given if isinstance(given, str) else ""
        stem = text.rstrip("-.") if field == "generateName" else text
        if stem and (len(stem) > _MAX_NAME_LENGTH or _NAME.fullmatch(stem) is None):
            said = "is not the name of an object: use lower case letters, digits, - and ."
            yield FieldError(f"metadata.{field}", f"{text[:80]!r} {said}")
    for field in ("labels", "annotations"):
        given = metadata.get(field)
        for key, value in given.items() if isinstance(given, dict) else ():
            if not is_label_name(key if field == "labels" else key.lower()):  # as the API server does
                yield FieldError(f"metadata.{field}[{key}]", "is not a name: write name or domain/name")
            if field == "labels" and isinstance(value, str) and not is_label_value(value):
                yield FieldError(f"metadata.labels[{key}]", f"{value[:80]!r} is not a label value")
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and sum(len(f"{k}{v}".encode()) for k, v in annotations.items()) > _MAX_BYTES:
        yield FieldError("metadata.annotations", f"are more than {_MAX_BYTES // 1024} KiB together")
