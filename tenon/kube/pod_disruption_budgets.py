"""PodDisruptionBudgets as the cache needs them: which pods they do not allow to be evicted, and the sentence for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
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
    unhealthy_pod_eviction_policy: str = ""


class PdbStatus(Wire):
    disruptions_allowed: int | None = None


class PdbObject(Wire):
    metadata: Metadata
    spec: PdbSpec = field(default_factory=PdbSpec)
    status: PdbStatus = field(default_factory=PdbStatus)


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A PodDisruptionBudget: which pods of its namespace it selects (None: no pod), and whether it forbids eviction.

    ``never`` is False for a budget that allows no disruption at the moment but may allow it later. ``blocks`` is true
    for both. How many disruptions it allows is not kept, because each change of that would be a change of the record.
    """

    namespace: str
    selector: LabelSelector | None
    never: bool
    blocks: bool
    name: str
    """``namespace/name``."""
    spares_unready: bool = False
    """Pods that are not ready may be evicted at any time: unhealthyPodEvictionPolicy is AlwaysAllow."""


def eviction_refusal(selecting: Sequence[str], blocking: Iterable[str]) -> str:
    """Return why a pod may not be evicted; empty if its PodDisruptionBudgets allow it.

    Args:
        selecting: ``namespace/name`` of all budgets that select the pod. Kubernetes evicts no pod with more than one.
        blocking: those of them that do not allow its eviction now.
    """
    if len(selecting) > 1:
        return f"PodDisruptionBudgets {', '.join(sorted(selecting))} all select it"
    return next((f"PodDisruptionBudget {name} allows no eviction" for name in blocking), "")


_pdbs = msgspec.json.Decoder(PdbObject)


def decode_pdb(raw: bytes | msgspec.Raw, *, unstated: int = 0) -> ValueRecord[PodDisruptionBudget]:
    """Decode a PodDisruptionBudget.

    Args:
        raw: its JSON.
        unstated: how many disruptions it allows while its status does not say. Karpenter and the API server's eviction
            take that for none.

    Raises:
        ValueError: the bytes are not a PodDisruptionBudget, or its selector has an unknown operator.
    """
    wire = _pdbs.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    namespace = sys.intern(metadata.namespace or "default")
    never = spec.max_unavailable in (0, "0", "0%") or spec.min_available == "100%"
    allowed = wire.status.disruptions_allowed
    selector = label_selector(spec.selector)
    pdb = PodDisruptionBudget(
        namespace=namespace,
        selector=share_value(selector) if selector is not None else None,
        never=never,
        blocks=never or (unstated if allowed is None else allowed) <= 0,
        name=f"{namespace}/{metadata.name}",
        spares_unready=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )
    return ValueRecord(pdb.name, metadata.uid, metadata.resource_version, pdb)
