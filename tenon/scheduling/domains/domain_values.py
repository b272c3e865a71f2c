"""The values of a topology key on existing nodes and on nodes that a NodePool could launch."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.kube.requirements import Requirements
from tenon.kube.taints import untolerated
from tenon.scheduling.existing.existing_nodes import Room
from tenon.scheduling.model import OFFERING_KEYS
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.packing.bins import Bin
from tenon.scheduling.pods.pod_classes import PodClass, combined
from tenon.scheduling.pods.topology_groups import NodeFilter

ANY = "*"
"""Stands for every domain, if a node's label may still get any value."""


def launchable(template: Template, requirements: Requirements, key: str) -> set[str]:
    """The values that ``key`` may get on a node with these requirements; `ANY` if they are not known in advance."""
    offers = template.offers_for(requirements)
    if not offers:
        return set()
    if key in OFFERING_KEYS:
        return {value for offer in offers if (value := template.table.offer_value(offer, key))}
    if key in template.requirements and not template.table.decides(key):
        requirement = requirements[key]
        return {ANY} if requirement.complement else set(requirement.members)
    types = 0
    for offered_types in offers.values():
        types |= offered_types
    return template.table.labels_of(key, types, requirements.get(key))


def value_on_new_node(node: Bin, key: str) -> str | None:
    """The value of ``key`` on a new node; None while it may still get one of several.

    `ANY` counts as one value: the node will get a value of its own.
    """
    template = node.template
    if key in template.requirements and not template.table.decides(key):
        values = launchable(template, node.state.requirements, key)
    elif key in OFFERING_KEYS:
        offers = template.offers_for(node.state.requirements)
        values = {
            template.table.offer_value(offer, key)
            for offer, offered_types in offers.items()
            if offered_types & node.types
        }
    else:
        values = template.table.labels_of(key, node.types, node.state.requirements.get(key))
    return values.pop() if len(values) == 1 else None


def value_on_node(room: Room, key: str) -> str | None:
    """The value of ``key`` on an existing node; None if it has none, or may still get one of several."""
    return room.labels.domain(key)


def counts_node(room: Room, nodes: NodeFilter) -> bool:
    """Whether a spread constraint with this filter counts the pods of an existing node."""
    if nodes.terms is not None and not any(map(room.meets, nodes.terms)):
        return False
    return nodes.tolerations is None or untolerated(nodes.tolerations, room.taints) is None


class Domains:
    """The domains of one batch, computed once each."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        """Take the existing nodes. `templates` are added if new nodes may be needed."""
        self._rooms = rooms
        self.templates: list[Template] = []
        self._usable: dict[tuple[object, ...], frozenset[str]] = {}
        self._present: dict[tuple[str, NodeFilter], frozenset[str]] = {}

    def usable(self, pod_class: PodClass, key: str, nodes: NodeFilter | None = None) -> frozenset[str]:
        """The domains of nodes that could be launched for the pods and pass the filter, whatever their size."""
        terms = combined(pod_class.own_terms, nodes.terms or () if nodes else ())
        cache_key = (terms, pod_class.tolerations, key)
        usable_values = self._usable.get(cache_key)
        if usable_values is None:
            launchable_values: set[str] = set()
            for template in self.templates:
                if untolerated(pod_class.tolerations, template.pool.taints) is None:
                    for term in terms:
                        narrowed = template.narrow(template.requirements, term)
                        if narrowed is not None:
                            launchable_values |= launchable(template, narrowed, key)
            usable_values = self._usable[cache_key] = frozenset(launchable_values)
        return usable_values

    def reachable(self, terms: tuple[Requirements, ...], key: str) -> set[str]:
        """The domains of nodes that could be launched under one of these terms."""
        launchable_values: set[str] = set()
        for template in self.templates:
            for term in terms:
                narrowed = template.narrow(template.requirements, term)
                if narrowed is not None:
                    launchable_values |= launchable(template, narrowed, key)
        return launchable_values

    def present(self, key: str, nodes: NodeFilter) -> frozenset[str]:
        """The domains of existing nodes that pass the filter."""
        present_values = self._present.get((key, nodes))
        if present_values is None:
            values = (value_on_node(room, key) for room in self._rooms if counts_node(room, nodes))
            present_values = self._present[key, nodes] = frozenset(value for value in values if value is not None)
        return present_values
