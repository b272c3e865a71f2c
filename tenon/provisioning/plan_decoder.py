"""Reads problems from their documents, in the form of `tenon.provisioning.plan_document`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from tenon.kube.pod import Pod
from tenon.provisioning.input_documents import UnreadableInputsError, read
from tenon.provisioning.kept_catalogue import KeptCatalogue, types_in
from tenon.provisioning.plan_document import MAX_CATALOGUES, MAX_PODS, NodeEntry, PlanDocument, TypesEntry
from tenon.scheduling.model import InstanceType, Node, Problem


class PlanInputDecoder:
    """Decodes problems. Plans that share their types share the lists too, so that an engine indexes each list once."""

    def __init__(self, catalogue_of: Callable[[str], bytes]) -> None:
        """``catalogue_of`` returns the catalogue with a digest."""
        self._catalogue_of = catalogue_of
        self._lists: dict[bytes, list[InstanceType]] = {}

    def decode(self, digest: str, plan: bytes) -> Problem:
        """Return the problem in a document.

        Raises:
            UnreadableInputsError: a document is damaged, or of a version that this one does not know.
        """
        return self.problem_of(digest, read(digest, plan, PlanDocument))

    def problem_of(self, digest: str, document: PlanDocument) -> Problem:
        """Return the problem of a document. ``digest``: that of the document that it is in.

        Raises:
            UnreadableInputsError: a catalogue is damaged, or the document names what it does not have.
        """
        lists = [self._list(types) for types in document.types]
        try:
            return Problem(
                pods=_pods_of(document),
                pools=[replace(entry.pool, instance_types=lists[entry.types]) for entry in document.pools],
                nodes=[_node_of(node, document) for node in document.nodes],
                daemons=document.daemons,
                namespaces=document.namespaces,
                ignore_preferences=document.ignore_preferences,
                min_values_best_effort=document.min_values_best_effort,
                node_charge=document.node_charge,
                most_pods_share=document.most_pods_share,
            )
        except (IndexError, ValueError):
            raise UnreadableInputsError(f"the document {digest} names a part that it does not have") from None

    def _list(self, types: TypesEntry) -> list[InstanceType]:
        key = msgspec.json.encode(types)
        instance_types = self._lists.pop(key, None)
        if instance_types is None:
            catalogue = read(types.catalogue, self._catalogue_of(types.catalogue), KeptCatalogue)
            instance_types = types_in(catalogue, types.changes)
        self._lists[key] = instance_types
        while len(self._lists) > MAX_CATALOGUES:
            del self._lists[next(iter(self._lists))]
        return instance_types


def _pods_of(document: PlanDocument) -> list[Pod]:
    pods = []
    created = 0.0
    columns = (document.pods.kinds, document.pods.later, document.pods.names)
    for number, (kind, later, name) in enumerate(zip(*columns, strict=True)):
        created += later
        shared = document.kinds[kind]
        pods.append(replace(shared, name=shared.name + name, uid=f"{number:08d}", created=created))
    return pods


def _node_of(node: NodeEntry, document: PlanDocument) -> Node:
    shape = document.shapes[node.shape]
    pods = tuple(
        replace(kind, name=kind.name or f"running-{number}-{index}", uid=f"{node.name}/{number}/{index}")
        for number, count in node.pods
        for kind in (document.kinds[number],)
        for index in range(min(count, MAX_PODS))
    )
    return replace(shape, name=node.name, labels={**shape.labels, **node.labels}, used=node.used, pods=pods)
