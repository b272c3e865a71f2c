"""Tells which objects are Karpenter's, and which model validates each kind and version."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.crd_kinds import RESOURCES
from tenon.manifests.documents import Item

MODELS: Mapping[tuple[str, str], type[ApiModel]] = {
    (resource.kind, f"{resource.group}/{version.name}"): version.model
    for resource in RESOURCES
    for version in resource.versions
}
"""Model of each kind and version."""
KINDS = frozenset(kind for kind, _ in MODELS)
_GROUPS = (labels.GROUP, labels.AWS_GROUP, labels.TENON_GROUP)
_MIN_SIMILARITY = 0.85


def is_karpenters(item: Item) -> bool:
    """True if the object has a Karpenter kind or group, or a Karpenter kind with a misspelled group."""
    group = item.api_version.rpartition("/")[0]
    if (item.kind, item.api_version) in MODELS or group in _GROUPS:
        return True
    return item.kind in KINDS and bool(get_close_matches(group, _GROUPS, 1, _MIN_SIMILARITY))


def unknown_kind(item: Item) -> tuple[str, str, str] | None:
    """Explain a kind or version that Karpenter does not have.

    Returns:
        (field, sentence, suggested value or an empty string), or None if the kind and version exist.
    """
    if (item.kind, item.api_version) in MODELS:
        return None
    versions = [version for kind, version in MODELS if kind == item.kind]
    if versions:
        nearest_version = versions[0] if len(versions) == 1 else ""
        return (
            "apiVersion",
            f"{item.api_version} is not a version of {item.kind}: write {' or '.join(versions)}",
            nearest_version,
        )
    group = item.api_version.partition("/")[0]
    kinds = sorted({kind for kind, version in MODELS if version.partition("/")[0] == group})
    nearest_version = next(iter(get_close_matches(item.kind, kinds, 1)), "")
    hint = f"did you mean {nearest_version}?" if nearest_version else f"use one of {', '.join(kinds)}"
    return "kind", f"{item.kind or 'nothing'} is not a kind of {item.api_version}: {hint}", nearest_version
