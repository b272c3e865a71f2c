"""Checks names, labels and annotations with the API server's rules for every kind.

Of kinds other than Karpenter's, only the values of labels, annotations and node selectors are checked: a common mistake
is ``karpenter.sh/do-not-disrupt: true`` without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tenon.apis.common import is_label_name, is_label_value
from tenon.apis.validation import FieldError
from tenon.manifests.paths import Path, text_of

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME_LENGTH = 253
_MAX_BYTES = 256 * 1024
_BUILT_IN = re.compile(r"v1|[a-z]+/v[0-9a-z]+")
"""apiVersions of pods and workloads, whose field names mean the same at every depth. Other groups are checked less."""
_OF_METADATA = ("labels", "annotations")
_SELECTORS = ("nodeSelector", "matchLabels")


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
        metadata_value = metadata.get(field)
        text = metadata_value if isinstance(metadata_value, str) else ""
        stem = text.rstrip("-.") if field == "generateName" else text
        if stem and (len(stem) > _MAX_NAME_LENGTH or _NAME.fullmatch(stem) is None):
            sentence = "is not the name of an object: use lower case letters, digits, - and ."
            yield FieldError(f"metadata.{field}", f"{text[:80]!r} {sentence}")
    for field in ("labels", "annotations"):
        metadata_value = metadata.get(field)
        for key, value in metadata_value.items() if isinstance(metadata_value, dict) else ():
            if not is_label_name(key if field == "labels" else key.lower()):  # as the API server does
                yield FieldError(f"metadata.{field}[{key}]", "is not a name: write name or domain/name")
            if field == "labels" and isinstance(value, str) and not is_label_value(value):
                yield FieldError(f"metadata.labels[{key}]", f"{value[:80]!r} is not a label value")
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and sum(len(f"{k}{v}".encode()) for k, v in annotations.items()) > _MAX_BYTES:
        yield FieldError("metadata.annotations", f"are more than {_MAX_BYTES // 1024} KiB together")


def refused_texts(body: Mapping[str, Any]) -> list[FieldError]:
    """Return a problem for each label, annotation and node selector value that is not a string."""
    return [
        FieldError(text_of((*path, key)), "is not a string" + (": put it in quotes" if _is_single(value) else ""))
        for path, entries in _of_texts(body)
        for key, value in entries.items()
        if not isinstance(value, str) and value is not None  # the API server reads null as an empty string
    ]


def _is_single(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _of_texts(body: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the mappings whose values must be strings."""
    waiting: list[tuple[Path, Any]] = [((), body)]
    if _BUILT_IN.fullmatch(str(body.get("apiVersion"))) is None:
        waiting = [(("metadata",), body.get("metadata"))]
    while waiting:
        path, value = waiting.pop()
        inner: list[tuple[Path, Any]] = []
        if isinstance(value, dict):
            for key, entry in value.items():
                child_path = (*path, key)
                if (path[-1:] == ("metadata",) and key in _OF_METADATA) or key in _SELECTORS:
                    if isinstance(entry, dict):
                        yield child_path, entry
                else:
                    inner.append((child_path, entry))
        elif isinstance(value, list):
            inner = [((*path, index), entry) for index, entry in enumerate(value)]
        waiting += reversed(inner)
