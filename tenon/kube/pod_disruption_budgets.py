"""PodDisruptionBudgets as the cache needs them: which pods they never allow to be evicted."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import msgspec
from msgspec import field

from tenon.kube.records import ValueRecord
from tenon.kube.selectors import LabelSelector, label_selector
from tenon.kube.sharing import share_value
from tenon.kube.structs import Metadata, Selector, Wire


class PdbSpec(Wire):
    selector: Selector | None = None
    max_unavailable: int | str | None = None
    min_available: int | str | None = None


class PdbObject(Wire):
    metadata: Metadata
    spec: PdbSpec = field(default_factory=PdbSpec)


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A PodDisruptionBudget: which pods of its namespace it selects (None: no pod), and whether it forbids eviction.

    ``never`` is False for a budget that allows no disruption at the moment but may allow it later.
    """

    namespace: str
    selector: LabelSelector | None
    never: bool


_pdbs = msgspec.json.Decoder(PdbObject)


def decode_pdb(raw: bytes | msgspec.Raw) -> ValueRecord[PodDisruptionBudget]:
    """Decode a PodDisruptionBudget.

    Raises:
        ValueError: the bytes are not a PodDisruptionBudget, or its selector has an unknown operator.
    """
    wire = _pdbs.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    namespace = sys.intern(metadata.namespace or "default")
    never = spec.max_unavailable in (0, "0", "0%") or spec.min_available == "100%"
    selector = label_selector(spec.selector)
    pdb = PodDisruptionBudget(namespace, share_value(selector) if selector is not None else None, never)
    return ValueRecord(f"{namespace}/{metadata.name}", metadata.uid, metadata.resource_version, pdb)
