"""Splits a fault about all labels of an object into one fault per label, each on its own line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tenon.apis import labels
from tenon.apis.legacy.kinds.closed import closed_reason
from tenon.apis.restricted import restricted_reason
from tenon.apis.validation import FieldError
from tenon.manifests.paths import has, path_of, text_of, value_at

_OF_LABELS = "labels must not use a reserved label"
_OF_REQUIREMENTS = "requirements must not use a reserved label"
_OWN = "is set from the NodePool's name and may not be given"


def by_label(body: Mapping[str, Any], problems: Sequence[FieldError]) -> Iterator[FieldError]:
    """Yield the problems, with each general problem about labels replaced by one problem per label."""
    for problem in problems:
        exact = list(_exact(body, problem))
        yield from exact or [problem]


def _exact(body: Mapping[str, Any], problem: FieldError) -> Iterator[FieldError]:
    if problem.sentence not in (_OF_LABELS, _OF_REQUIREMENTS):
        return
    reason_of = closed_reason if str(body.get("apiVersion")).endswith("/v1beta1") else restricted_reason
    field = problem.sentence.partition(" ")[0]
    path = (*path_of(problem.path, body), field)
    if not has(body, path):
        return
    value = value_at(body, path)
    if problem.sentence == _OF_LABELS:
        for key in value:
            if reason := _OWN if key == labels.NODEPOOL else reason_of(key):
                yield FieldError(f"{text_of(path)}[{key}]", reason)
        return
    for index, term in enumerate(value):
        if reason := reason_of(term["key"]):
            yield FieldError(f"{text_of((*path, index))}.key", reason)
