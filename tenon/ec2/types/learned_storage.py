"""The ephemeral storage that pods really get, learned from nodes that report less of it than planned (AWS-061).

The file system takes a part of a volume that only a running node knows. A pod that needs nearly all of the planned
amount would otherwise wait next to one new node after another. What is learned depends on the image and on the planned
amount, not on the instance type: after another volume size or other kubelet settings, plans start from the new amount.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import parse_json_object

MOST = 100
"""The most figures in an annotation. Classes with RAID0 have one for each size of the instance store."""

StorageFigures = dict[str, dict[int, int]]
"""Bytes by image and planned bytes."""


def read_storage(annotations: Mapping[str, str]) -> StorageFigures:
    """Return the figures in an annotation. What is malformed is ignored, and learned again."""
    raw_storage = parse_json_object(annotations.get(labels.LEARNED_STORAGE)) or {}
    return {
        image: {int(planned): reported for planned, reported in figures.items() if _is_figure(planned, reported)}
        for image, figures in raw_storage.items()
        if isinstance(figures, dict)
    }


def learned_storage(node_class: EC2NodeClass) -> dict[int, int]:
    """Return the bytes that pods get, by planned bytes. Where images of the class differ, the least counts."""
    figures = read_storage(node_class.metadata.annotations)
    least: dict[int, int] = {}
    for image in node_class.status.amis:
        for planned, reported in figures.get(image.id, {}).items():
            least[planned] = min(reported, least.get(planned, reported))
    return least


def with_storage(
    annotations: Mapping[str, str], images: Iterable[str], image: str, planned: int, reported: int
) -> str | None:
    """Return the new annotation for a node that reports less than planned; None if it teaches nothing.

    A plan may count with a figure that was learned before. A node with even less lowers that figure.
    """
    current = set(images)
    if image not in current or not 0 < reported < planned:
        return None
    figures = {of: dict(type_figures) for of, type_figures in read_storage(annotations).items() if of in current}
    of_image = figures.pop(image, {})
    planned = next((amount for amount, type_figures in of_image.items() if type_figures == planned), planned)
    if of_image.pop(planned, reported + 1) <= reported:
        return None
    figures[image] = {**of_image, planned: reported}
    rows = [(of, amount, type_figures) for of, listed in figures.items() for amount, type_figures in listed.items()]
    kept_figures: dict[str, dict[str, int]] = {}
    for of, amount, type_figures in rows[-MOST:]:
        kept_figures.setdefault(of, {})[str(amount)] = type_figures
    return json.dumps(kept_figures, separators=(",", ":"))


def _is_figure(planned: str, reported: object) -> bool:
    if not isinstance(reported, int) or isinstance(reported, bool):
        return False
    return planned.isascii() and planned.isdecimal() and 0 < reported < int(planned)
