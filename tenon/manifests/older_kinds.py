"""Reports faults of older kinds by their original fields, although v1 validation finds them."""

from __future__ import annotations

from collections.abc import Iterator

from tenon.apis.legacy.conversion import Converted
from tenon.apis.validation import FieldError, parse
from tenon.manifests.documents import Item
from tenon.manifests.field_moves import moves_of, old_path
from tenon.manifests.kinds import MODELS
from tenon.manifests.paths import has, path_of, text_of

ABSENT = "is required"
"""Sentence for a missing field."""


def problems_of_older(item: Item, converted: Converted) -> Iterator[FieldError]:
    """Yield the problems of an older object and of its conversion, with the older object's paths."""
    yield from converted.problems
    for manifest in converted.manifests:
        wanted = {name: value for name, value in manifest.items() if name != "status"}
        _, problems = parse(MODELS[manifest["kind"], manifest["apiVersion"]], wanted)
        moves = moves_of(item.kind, item.api_version, manifest["kind"])
        for problem in problems:
            path = old_path(path_of(problem.path, manifest), moves)
            absent = 1 if problem.sentence == ABSENT else 0
            while path and not has(item.body, path[: len(path) - absent]):
                path = path[:-1]
            yield FieldError(text_of(path), problem.sentence)
