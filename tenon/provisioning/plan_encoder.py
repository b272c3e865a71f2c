"""Writes the document of a problem, in the form of `tenon.provisioning.plan_document`."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

from tenon.kube.pod import Pod
from tenon.kube.pod_rules import NO_RULES, PodRules
from tenon.provisioning.input_documents import VERSION, digest_of, encode
from tenon.provisioning.kept_catalogue import catalogue_of, changes_of
from tenon.provisioning.plan_document import (
    MAX_CATALOGUE,
    MAX_CATALOGUES,
    MAX_NODES,
    MAX_PODS,
    NodeEntry,
    PlanDocument,
    PlanInputs,
    PodColumns,
    PoolEntry,
    TypesEntry,
    check_size,
    in_order,
    packed,
)
from tenon.scheduling.model import InstanceType, Node, Pool, Problem


@dataclass(frozen=True, slots=True)
class _EncodedTypes:
    types: Sequence[InstanceType]
    """The list itself, so that its identity stays its own."""
    reference: TypesEntry
    document: bytes


class PlanInputEncoder:
    """Encodes problems, and each list of instance types once. It is not for several threads at a time."""

    def __init__(self) -> None:
        self._lists: dict[int, _EncodedTypes] = {}
        self._catalogues: dict[str, bytes] = {}

    def encode(self, problem: Problem) -> PlanInputs:
        """Return the documents of a problem.

        Raises:
            InputsTooLargeError: they are not to be kept.
        """
        document, documents = self.document(problem)
        digest, plan = packed(document)
        return PlanInputs(digest, plan, documents)

    def document(self, problem: Problem) -> tuple[PlanDocument, Mapping[str, bytes]]:
        """Return the document of a problem, for a larger one, and its compressed catalogues by digest.

        Raises:
            InputsTooLargeError: they are not to be kept.
        """
        running = sum(len(node.pods) for node in problem.nodes)
        check_size(len(problem.pods) + running, MAX_PODS, "pods")
        check_size(len(problem.nodes), MAX_NODES, "nodes")
        types_by_list = self._types_of(problem.pools)
        documents = {encoded.reference.catalogue: encoded.document for encoded in types_by_list.values()}
        references: list[TypesEntry] = []
        pools = []
        for pool in sorted(problem.pools, key=lambda pool: pool.name):
            reference = types_by_list[id(pool.instance_types)].reference
            if reference not in references:
                references.append(reference)
            pools.append(PoolEntry(replace(pool, instance_types=()), references.index(reference)))
        return _plan_of(problem, references, pools), documents

    def _types_of(self, pools: Iterable[Pool]) -> dict[int, _EncodedTypes]:
        """The encoded lists of instance types, by the identity of each list."""
        lists = {id(pool.instance_types): pool.instance_types for pool in pools}
        check_size(len(lists), MAX_CATALOGUES, "different lists of instance types")
        encoded_lists = {}
        for identity, types in lists.items():
            encoded = self._lists.get(identity)
            encoded_lists[identity] = encoded if encoded and encoded.types is types else self._encoded(types)
        self._lists = encoded_lists
        documents = {encoded.reference.catalogue: encoded.document for encoded in encoded_lists.values()}
        self._catalogues = documents
        return encoded_lists

    def _encoded(self, types: Sequence[InstanceType]) -> _EncodedTypes:
        text = encode(catalogue_of(types))
        digest = digest_of(text)
        document = self._catalogues.get(digest) or gzip.compress(text, mtime=0)
        check_size(len(document), MAX_CATALOGUE, "bytes of instance types")
        return _EncodedTypes(types, TypesEntry(digest, changes_of(types)), document)


def _plan_of(problem: Problem, types: list[TypesEntry], pools: list[PoolEntry]) -> PlanDocument:
    kinds = _Kinds()
    pods = in_order(problem.pods)
    pod_kinds = [kinds.number(replace(pod, name=_stem(pod.name), uid="", created=0.0)) for pod in pods]
    nodes = sorted(problem.nodes, key=lambda node: node.name)
    rules_apply = any(pod.rules for pod in pods)
    by_workload = problem.most_pods_share < 1
    running_kinds = [
        Counter(
            kinds.number(_running(pod))
            for pod in node.pods
            if rules_apply
            or pod.rules.anti_affinity
            or pod.attachments
            or pod.exclusive
            or (by_workload and pod.workload)
        )
        for node in nodes
    ]
    places = kinds.sort()
    shapes, shape_labels = _shapes(nodes)
    daemons = sorted(problem.daemons, key=lambda pod: (pod.key, pod.uid))
    return PlanDocument(
        version=VERSION,
        types=types,
        pools=pools,
        kinds=kinds.pods,
        pods=PodColumns(
            kinds=[places[kind] for kind in pod_kinds],
            later=[_short(after - before) for before, after in pairwise([0.0, *(pod.created for pod in pods)])],
            names=[pod.name.removeprefix(_stem(pod.name)) for pod in pods],
        ),
        daemons=[replace(pod, uid="") for pod in daemons],
        shapes=shapes,
        nodes=[
            NodeEntry(
                shape,
                node.name,
                own_labels,
                dict(node.used),
                sorted((places[kind], count) for kind, count in running.items()),
            )
            for node, (shape, own_labels), running in zip(nodes, shape_labels, running_kinds, strict=True)
        ],
        namespaces=_namespaces(problem),
        ignore_preferences=problem.ignore_preferences,
        min_values_best_effort=problem.min_values_best_effort,
        node_charge=problem.node_charge,
        most_pods_share=problem.most_pods_share,
    )


def _stem(name: str) -> str:
    """The beginning of a pod's name that it has from its controller, with the dash behind it."""
    return name[: name.rfind("-") + 1]


def _short(seconds: float) -> float:
    """The same number, as JSON writes it shortest."""
    return int(seconds) if seconds.is_integer() else seconds


_every_field = attrgetter(*(field.name for field in fields(Pod)))


def _hashable(value: Any) -> object:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


class _Kinds:
    """Numbers the kinds of pods."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def number(self, pod: Pod) -> int:
        """The number of the pod's kind until they are sorted."""
        key = tuple(map(_hashable, _every_field(pod)))
        number = self._numbers.setdefault(key, len(self.pods))
        if number == len(self.pods):
            self.pods.append(pod)
        return number

    def sort(self) -> list[int]:
        """Sort the kinds by what they are. Return the place of each number."""
        texts = [encode(pod) for pod in self.pods]
        numbers = sorted(range(len(texts)), key=texts.__getitem__)
        self.pods = [self.pods[number] for number in numbers]
        places = {number: place for place, number in enumerate(numbers)}
        return [places[number] for number in range(len(numbers))]


def _shapes(nodes: Sequence[Node]) -> tuple[list[Node], list[tuple[int, dict[str, str]]]]:
    """The shapes of the nodes and, for each node, the number of its shape and the labels that only it has."""
    counts = Counter(label for node in nodes for label in node.labels.items())
    numbers: dict[bytes, int] = {}
    shapes: list[Node] = []
    shape_labels = []
    for node in nodes:
        own = {key: value for key, value in node.labels.items() if counts[key, value] == 1}
        shared_labels = {key: value for key, value in node.labels.items() if key not in own}
        shape = replace(node, name="", labels=shared_labels, used={}, pods=())
        number = numbers.setdefault(encode(shape), len(shapes))
        if number == len(shapes):
            shapes.append(shape)
        shape_labels.append((number, own))
    return shapes, shape_labels


def _running(pod: Pod) -> Pod:
    """A running pod with only what rules about other pods read."""
    return Pod(
        pod.namespace,
        pod.name if pod.exclusive else "",  # a pod that waits for its claim names it
        "",
        {},
        labels=pod.labels,
        rules=PodRules(anti_affinity=pod.rules.anti_affinity) if pod.rules else NO_RULES,
        attachments=pod.attachments,
        exclusive=pod.exclusive,
        workload=pod.workload,
    )


def _namespaces(problem: Problem) -> dict[str, dict[str, str]] | None:
    """The labels of the namespaces, if a rule selects namespaces by them."""
    if problem.namespaces is None:
        return None
    pods = [*problem.pods, *problem.daemons, *(pod for node in problem.nodes for pod in node.pods)]
    if not any(term.namespace_selector for pod in pods for term in pod.rules.terms):
        return {}
    return {name: dict(texts) for name, texts in problem.namespaces.items()}
