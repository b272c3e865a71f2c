"""CPU, pods and huge pages that pods really get, learned from nodes that report other amounts than planned (AWS-061).

User data and images may reserve CPU, limit pods or set huge pages aside, which no field of an EC2NodeClass says. A pod
that needs nearly all of the planned amount would otherwise wait next to one new node after another.

CPU and pods are only ever lowered. A plan that counts with too little costs some room. One that counts with too much
leaves pods without a node, and a kubelet that lies could attract pods. Plans know of no huge pages, so what nodes
report of them is added, and taken off the memory: otherwise no pod could ever ask for them. Where nodes differ, the
least counts. A figure holds for an image, an instance type and the planned amount, so that it ends with other kubelet
settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import parse_json_object
from tenon.resources import CPU, PODS, Resources

MOST = 200
"""The most figures in an annotation: about 12 KiB of the 256 that all annotations of an object may have."""


@dataclass(frozen=True, slots=True)
class Figure:
    """An amount that nodes of a type report, in the units of `tenon.resources`."""

    planned: int
    reported: int


@dataclass(frozen=True, slots=True)
class LearningRule:
    """How one resource is learned."""

    least: Fraction = Fraction(0)
    """The least part of the planned amount that a node is believed to have: one kubelet that lies must not do harm."""
    added: bool = False
    """Plans know of none, so what nodes report is added. Otherwise only less than planned is learned."""

    def believed(self, figure: Figure) -> int:
        """Return the amount that plans count with, for a resource that is only lowered."""
        return min(max(figure.reported, int(figure.planned * self.least)), figure.planned)


RULES: Mapping[str, LearningRule] = {
    CPU: LearningRule(least=Fraction(3, 4)),
    PODS: LearningRule(least=Fraction(1, 4)),  # images and user data often limit pods to a small number
    **dict.fromkeys(("hugepages-64Ki", "hugepages-2Mi", "hugepages-32Mi", "hugepages-1Gi"), LearningRule(added=True)),
}
"""The resources that are learned. Memory and ephemeral storage have modules of their own."""
MOST_HUGE = Fraction(1, 2)
"""The largest part of a node's memory that it is believed to have as huge pages."""

Figures = dict[str, dict[str, dict[str, Figure]]]
"""By image, instance type and resource."""


def read_amounts(annotations: Mapping[str, str]) -> Figures:
    """Return the figures in an annotation. What is malformed is ignored, and learned again."""
    figures: Figures = {}
    for image, types in (parse_json_object(annotations.get(labels.LEARNED_AMOUNTS)) or {}).items():
        for name, amounts in _members(types):
            for resource, pair in _members(amounts):
                if resource in RULES and _is_figure(pair):
                    figures.setdefault(image, {}).setdefault(name, {})[resource] = Figure(*pair)
    return figures


def learned_amounts(node_class: EC2NodeClass) -> dict[str, dict[str, Figure]]:
    """Return the figures by instance type and resource.

    Where images of the class differ, the least counts, because any may be launched.
    """
    figures = read_amounts(node_class.metadata.annotations)
    least: dict[str, dict[str, Figure]] = {}
    for image in node_class.status.amis:
        for name, amounts in figures.get(image.id, {}).items():
            least_amounts = least.setdefault(name, {})
            for resource, figure in amounts.items():
                if resource not in least_amounts or figure.reported < least_amounts[resource].reported:
                    least_amounts[resource] = figure
    return least


def differing(planned: Resources, reported: Resources) -> Iterator[tuple[str, int, int]]:
    """Yield each resource of which a node reports another amount than planned, with both, if that may be learned."""
    for resource, rule in RULES.items():
        was, now = planned.get(resource, 0), reported.get(resource, 0)
        if (was != now) if rule.added else (0 < now < was):
            yield resource, was, now


def with_amounts(
    annotations: Mapping[str, str],
    images: Iterable[str],
    image: str,
    instance_type: str,
    planned: Resources,
    reported: Resources,
) -> str | None:
    """Return the new annotation for a node; None if it teaches nothing.

    A plan may count with figures that were learned before. A node with even less lowers these.

    Args:
        annotations: those of the class.
        images: the current ones of the class. A node of another teaches nothing, and figures of others are dropped.
        image: that of the node.
        instance_type: that of the node.
        planned: what its NodeClaim says is allocatable.
        reported: what its Node says is allocatable.
    """
    current = set(images)
    if image not in current:
        return None
    figures = {of: types for of, types in read_amounts(annotations).items() if of in current}
    type_amounts = figures.get(image, {}).get(instance_type, {})
    news: dict[str, Figure] = {}
    for resource, was, now in differing(planned, reported):
        rule, before = RULES[resource], type_amounts.get(resource)
        if rule.added:
            figure = Figure(0, now)
        elif before is not None and was == rule.believed(before):
            figure = Figure(before.planned, now)
        else:
            figure = Figure(was, now)
        if before is None or before.planned != figure.planned or now < before.reported:
            news[resource] = figure
    if not news:
        return None
    rows = [
        (of, name, resource, figure)
        for of, types in figures.items()
        for name, amounts in types.items()
        for resource, figure in amounts.items()
        if (of, name) != (image, instance_type) or resource not in news
    ]
    rows += [(image, instance_type, resource, figure) for resource, figure in news.items()]
    kept_figures: dict[str, dict[str, dict[str, list[int]]]] = {}
    for of, name, resource, figure in rows[-MOST:]:
        kept_figures.setdefault(of, {}).setdefault(name, {})[resource] = [figure.planned, figure.reported]
    return json.dumps(kept_figures, separators=(",", ":"))


def huge_pages(figures: Mapping[str, Figure], memory: int) -> Resources:
    """Return the huge pages of a type, in bytes. ``memory``: the type's, in bytes."""
    pages: Resources = {}
    remaining_units = int(memory * MOST_HUGE)
    for name in sorted(figures):
        if RULES[name].added and (units := min(figures[name].reported, remaining_units)):
            pages[name] = units
            remaining_units -= units
    return pages


def missing(figures: Mapping[str, Figure], planned: Resources) -> Resources:
    """Return how much less of each resource pods get than planned."""
    return {
        name: figure.planned - RULES[name].believed(figure)
        for name, figure in figures.items()
        if not RULES[name].added and planned.get(name) == figure.planned
    }


def _members(value: object) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _is_figure(pair: object) -> bool:
    """Whether this is a pair of amounts, neither of which is negative."""
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return all(isinstance(amount, int) and not isinstance(amount, bool) and 0 <= amount < 2**63 for amount in pair)
