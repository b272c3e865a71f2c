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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from tenon.errors import TenonError
from tenon.kube.pod import Pod
from tenon.provisioning.input_documents import digest_of, encode
from tenon.provisioning.kept_catalogue import Change
from tenon.resources import Resources
from tenon.scheduling.model import Node, Pool

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


class PoolEntry(msgspec.Struct, frozen=True):
    """A NodePool, and where its instance types are."""

    pool: Pool
    """Without instance types."""
    types: int
    """The index among the catalogues of the plan."""


class TypesEntry(msgspec.Struct, frozen=True):
    """A list of instance types: the digest of its catalogue, and what the catalogue leaves out."""

    catalogue: str
    changes: list[Change]


class PodColumns(msgspec.Struct, frozen=True):
    """The pods to place, in the order of `in_order`: a list for each part, because equal parts next to each other need
    little room.
    """

    kinds: list[int]
    later: list[float]
    """How many seconds after the pod before it each was created; the first since the epoch."""
    names: list[str]
    """The end of each name, behind that of its kind."""


class NodeEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node: the index of its shape, and what is its own."""

    shape: int
    name: str
    labels: dict[str, str]
    used: Resources
    pods: list[tuple[int, int]] = []
    """The kinds of running pods, each with how many of them there are."""


class PlanDocument(msgspec.Struct, frozen=True):
    """A problem. Its fields are those of `Problem`, and what they share."""

    version: int
    types: list[TypesEntry]
    pools: list[PoolEntry]
    kinds: list[Pod]
    """Pods without UID and time, and with the beginning of their name."""
    pods: PodColumns
    daemons: list[Pod]
    shapes: list[Node]
    """Nodes without name, use and pods, and without the labels that are their own."""
    nodes: list[NodeEntry]
    namespaces: dict[str, dict[str, str]] | None
    ignore_preferences: bool
    min_values_best_effort: bool
    node_charge: float
    most_pods_share: float


def packed(document: object) -> tuple[str, bytes]:
    """Return the digest of a document, and the document, compressed.

    Raises:
        InputsTooLargeError: it is not to be kept.
    """
    text = encode(document)
    compressed = gzip.compress(text, mtime=0)
    check_size(len(compressed), MAX_PLAN, "bytes")
    return digest_of(text), compressed


def check_size(number: int, most: int, noun: str) -> None:
    """Check that inputs are small enough to be kept.

    Raises:
        InputsTooLargeError: they are not.
    """
    if number > most:
        raise InputsTooLargeError(f"the inputs have {number} {noun}, and at most {most} are kept")


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods in the order in which a document lists them, and in which they are read back."""
    return sorted(pods, key=lambda pod: (pod.created, pod.uid, pod.key))
