"""The memory that nodes really have, learned from their kubelets (AWS-061).

EC2 states a type's memory, of which hypervisor and kernel take a part that only a running node knows. An EC2NodeClass
keeps what its nodes reported in an annotation, so that it survives restarts and all replicas read the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import parse_json_object

KIB = 1024
MOST = 600
"""The most figures in an annotation: about 15 KiB of the 256 that all annotations of an object may have."""

Figures = dict[str, dict[str, int]]
"""KiB by image and instance type."""


def read_figures(annotations: Mapping[str, str]) -> Figures:
    """Return the figures in an annotation. What is malformed is ignored, and learned again."""
    raw_figures = parse_json_object(annotations.get(labels.LEARNED_MEMORY)) or {}
    return {
        image: type_figures
        for image, types in raw_figures.items()
        if isinstance(types, dict) and (type_figures := {name: kib for name, kib in types.items() if _is_figure(kib)})
    }


def learned_memory(node_class: EC2NodeClass) -> dict[str, int]:
    """Return bytes by instance type. Where images of the class differ, the least counts, because any may be launched.

    The figures of images that the class does not select any more do not count.
    """
    figures = read_figures(node_class.metadata.annotations)
    least: dict[str, int] = {}
    for image in node_class.status.amis:
        for name, kib in figures.get(image.id, {}).items():
            least[name] = min(kib * KIB, least.get(name, kib * KIB))
    return least


def with_figure(
    annotations: Mapping[str, str], images: Iterable[str], image: str, instance_type: str, memory: int
) -> str | None:
    """Return the new annotation for a node that reports ``memory`` bytes; None if it teaches nothing.

    ``images`` are the current ones of the class: a node of another teaches nothing, and figures of others are dropped.
    Where nodes of one type and image differ, the least counts. The oldest figures leave when there are too many.
    """
    current = set(images)
    kib = memory // KIB
    if image not in current or kib <= 0:
        return None
    figures = read_figures(annotations)
    known_figure = figures.get(image, {}).get(instance_type)
    if known_figure is not None and known_figure <= kib:
        return None
    rows = [
        (of, name, value)
        for of, types in figures.items()
        if of in current
        for name, value in types.items()
        if (of, name) != (image, instance_type)
    ]
    kept_figures: Figures = {}
    for of, name, value in [*rows, (image, instance_type, kib)][-MOST:]:
        kept_figures.setdefault(of, {})[name] = value
    return json.dumps(kept_figures, separators=(",", ":"))


def _is_figure(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
