"""What a plan was made from, in a compact form that is kept for months: a scheduling problem, and its instance types.

It belongs here and not to the record, because it is the engine's `Problem`, which the record does not know. Unlike
`problem_json`, which repeats everything for a developer, this form is small:

- Pods that only the ends of their names and their times distinguish share one description. They are listed in the
  order of their times, so that these are short, and of their UIDs, which break ties and are not kept.
- A running pod has only what rules about other pods read, and is left out if no rule can concern it.
- Nodes that differ by a few labels share the others.
- Instance types are a document of their own, a catalogue, which many plans share. It has no refusals and no free places
  of reservations, which change often: these are in the plan.

Each document is compressed JSON, named by the SHA-256 digest of the JSON. Equal problems have equal digests, whatever
the order of their parts.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec

from tenon.errors import TenonError
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import NO_RULES, PodRules
from tenon.provisioning.input_documents import VERSION, UnreadableInputsError, digest_of, encode, read
from tenon.provisioning.kept_catalogue import Catalogue, Change, catalogue_of, changes_of, types_in
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Node, Pool, Problem

MAX_PLAN = 100_000
"""Bytes of a compressed plan."""
MAX_CATALOGUE = 1_000_000
"""Bytes of a compressed catalogue."""
MAX_PODS = 60_000
MAX_NODES = 5_000
MAX_CATALOGUES = 20
"""A larger problem would take seconds to encode, and not fit into `MAX_PLAN` either."""


class InputsTooLargeError(TenonError):
    """The inputs of a plan are too large to be kept. The message says why, without a period."""


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The documents of one problem, compressed."""

    digest: str
    plan: bytes
    catalogues: Mapping[str, bytes]
    """By digest."""


class _Pool(msgspec.Struct, frozen=True):
    pool: Pool
    """Without instance types."""
    types: int
    """The index among the catalogues of the plan."""


class _Types(msgspec.Struct, frozen=True):
    catalogue: str
    changes: list[Change]


class _Pods(msgspec.Struct, frozen=True):
    """A list for each part, because equal parts next to each other need little room. In the order of `in_order`."""

    kinds: list[int]
    later: list[float]
    """How many seconds after the pod before it each was created; the first since the epoch."""
    names: list[str]
    """The end of each name, behind that of its kind."""


class _Node(msgspec.Struct, frozen=True, omit_defaults=True):
    shape: int
    name: str
    labels: dict[str, str]
    used: Resources
    pods: list[tuple[int, int]] = []
    """The kinds of running pods, each with how many of them there are."""


class PlanDocument(msgspec.Struct, frozen=True):
    """A problem. Its fields are those of `Problem`, and what they share."""

    version: int
    types: list[_Types]
    pools: list[_Pool]
    kinds: list[Pod]
    """Pods without UID and time, and with the beginning of their name."""
    pods: _Pods
    daemons: list[Pod]
    shapes: list[Node]
    """Nodes without name, use and pods, and without the labels that are their own."""
    nodes: list[_Node]
    namespaces: dict[str, dict[str, str]] | None
    ignore_preferences: bool
    min_values_best_effort: bool
    node_charge: float
    most_pods_share: float


@dataclass(frozen=True, slots=True)
class _EncodedTypes:
    types: Sequence[InstanceType]
    """The list itself, so that its identity stays its own."""
    reference: _Types
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
        _limit(len(problem.pods) + running, MAX_PODS, "pods")
        _limit(len(problem.nodes), MAX_NODES, "nodes")
        types_by_list = self._types_of(problem.pools)
        documents = {encoded.reference.catalogue: encoded.document for encoded in types_by_list.values()}
        references: list[_Types] = []
        pools = []
        for pool in sorted(problem.pools, key=lambda pool: pool.name):
            reference = types_by_list[id(pool.instance_types)].reference
            if reference not in references:
                references.append(reference)
            pools.append(_Pool(replace(pool, instance_types=()), references.index(reference)))
        return _plan_of(problem, references, pools), documents

    def _types_of(self, pools: Iterable[Pool]) -> dict[int, _EncodedTypes]:
        """The encoded lists of instance types, by the identity of each list."""
        lists = {id(pool.instance_types): pool.instance_types for pool in pools}
        _limit(len(lists), MAX_CATALOGUES, "different lists of instance types")
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
        _limit(len(document), MAX_CATALOGUE, "bytes of instance types")
        return _EncodedTypes(types, _Types(digest, changes_of(types)), document)


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

    def _list(self, types: _Types) -> list[InstanceType]:
        key = msgspec.json.encode(types)
        instance_types = self._lists.pop(key, None)
        if instance_types is None:
            catalogue = read(types.catalogue, self._catalogue_of(types.catalogue), Catalogue)
            instance_types = types_in(catalogue, types.changes)
        self._lists[key] = instance_types
        while len(self._lists) > MAX_CATALOGUES:
            del self._lists[next(iter(self._lists))]
        return instance_types


def packed(document: object) -> tuple[str, bytes]:
    """Return the digest of a document, and the document, compressed.

    Raises:
        InputsTooLargeError: it is not to be kept.
    """
    text = encode(document)
    compressed = gzip.compress(text, mtime=0)
    _limit(len(compressed), MAX_PLAN, "bytes")
    return digest_of(text), compressed


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods in the order in which a document lists them, and in which they are read back."""
    return sorted(pods, key=lambda pod: (pod.created, pod.uid, pod.key))


def _plan_of(problem: Problem, types: list[_Types], pools: list[_Pool]) -> PlanDocument:
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
        pods=_Pods(
            kinds=[places[kind] for kind in pod_kinds],
            later=[_short(after - before) for before, after in pairwise([0.0, *(pod.created for pod in pods)])],
            names=[pod.name.removeprefix(_stem(pod.name)) for pod in pods],
        ),
        daemons=[replace(pod, uid="") for pod in daemons],
        shapes=shapes,
        nodes=[
            _Node(
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


def _pods_of(document: PlanDocument) -> list[Pod]:
    pods = []
    created = 0.0
    columns = (document.pods.kinds, document.pods.later, document.pods.names)
    for number, (kind, later, name) in enumerate(zip(*columns, strict=True)):
        created += later
        shared = document.kinds[kind]
        pods.append(replace(shared, name=shared.name + name, uid=f"{number:08d}", created=created))
    return pods


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


def _node_of(node: _Node, document: PlanDocument) -> Node:
    shape = document.shapes[node.shape]
    pods = tuple(
        replace(kind, name=kind.name or f"running-{number}-{index}", uid=f"{node.name}/{number}/{index}")
        for number, count in node.pods
        for kind in (document.kinds[number],)
        for index in range(min(count, MAX_PODS))
    )
    return replace(shape, name=node.name, labels={**shape.labels, **node.labels}, used=node.used, pods=pods)


def _limit(number: int, most: int, noun: str) -> None:
    if number > most:
        raise InputsTooLargeError(f"the inputs have {number} {noun}, and at most {most} are kept")
