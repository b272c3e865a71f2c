"""Finds non-string values in labels, annotations and node selectors of kinds other than Karpenter's.

A common mistake is ``karpenter.sh/do-not-disrupt: true`` without quotes, which the API server refuses. Other fields of
these kinds are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tenon.apis.validation import FieldError
from tenon.manifests.paths import Path, text_of

_BUILT_IN = re.compile(r"v1|[a-z]+/v[0-9a-z]+")
"""apiVersions of pods and workloads, whose field names mean the same at every depth. Other groups are checked less."""
_OF_METADATA = ("labels", "annotations")
_SELECTORS = ("nodeSelector", "matchLabels")


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
                here = (*path, key)
                if (path[-1:] == ("metadata",) and key in _OF_METADATA) or key in _SELECTORS:
                    if isinstance(entry, dict):
                        yield here, entry
                else:
                    inner.append((here, entry))
        elif isinstance(value, list):
            inner = [((*path, index), entry) for index, entry in enumerate(value)]
        waiting += reversed(inner)
