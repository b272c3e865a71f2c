"""PodDisruptionBudgets: which pods they select, and which they do not allow to be evicted.

The rules are those of the API server's eviction.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import field

from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.selectors import LabelSelector, label_selector
from tenon.kube.sharing import share_value
from tenon.kube.structs import DEFAULT_NAMESPACE, Metadata, Selector, Wire


class PdbSpec(Wire):
    selector: Selector | None = None
    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class PdbStatus(Wire):
    disruptions_allowed: int | None = None
    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PdbObject(Wire):
    metadata: Metadata
    spec: PdbSpec = field(default_factory=PdbSpec)
    status: PdbStatus = field(default_factory=PdbStatus)


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A PodDisruptionBudget: which pods of its namespace it selects (None: no pod), and whether it forbids eviction.

    ``blocks``: its status allows no disruption at the moment. ``never``: its spec allows none at any time. How many
    disruptions it allows is not kept, because each change of that would be a change of the record.
    """

    namespace: str
    selector: LabelSelector | None
    never: bool
    blocks: bool
    name: str
    """``namespace/name``."""
    spares_unready: bool = False
    """Pods that are not ready may be evicted: unhealthyPodEvictionPolicy is AlwaysAllow, or enough pods are healthy."""
    allows_from: int = 0
    """From how many pods on it allows an eviction, if its minAvailable keeps all that it selects now; 0 otherwise."""


def selecting(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """Return the budgets that select the pod: those of its namespace whose selector matches its labels."""
    return [
        budget
        for budget in budgets
        if budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)
    ]


def eviction_refusal(pod: PodRecord, budgets: Sequence[PodDisruptionBudget]) -> str:
    """Return why the API server would not evict the pod now; empty if the budgets that select it allow it."""
    return refused_by(budgets) if _is_refused(pod, budgets, lambda budget: budget.blocks) else ""


def never_evicted(pod: PodRecord, budgets: Sequence[PodDisruptionBudget]) -> bool:
    """Whether the API server would evict the pod at no time, because of the specs of the budgets that select it."""
    return _is_refused(pod, budgets, lambda budget: budget.never)


def _is_refused(
    pod: PodRecord, budgets: Sequence[PodDisruptionBudget], forbids: Callable[[PodDisruptionBudget], bool]
) -> bool:
    """Apply the rules of the API server's eviction.

    No budget counts for a pod that has not started, has ended or is ending. No other pod is evicted that more than one
    budget selects.
    """
    if pod.phase == "Pending" or pod.terminal or pod.deleting:
        return False
    if len(budgets) > 1:
        return True
    return any(forbids(budget) and (pod.ready or not budget.spares_unready) for budget in budgets)


def refused_by(budgets: Iterable[PodDisruptionBudget]) -> str:
    """Say that these PodDisruptionBudgets, which all select a pod, forbid its eviction; empty if there is none."""
    names = sorted(budget.name for budget in budgets)
    if len(names) > 1:
        return f"PodDisruptionBudgets {', '.join(names)} all select it"
    return f"PodDisruptionBudget {names[0]} allows no eviction" if names else ""


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
    return pdb_record(_pdbs.decode(raw), unstated=unstated)


def pdb_record(wire: PdbObject, *, unstated: int = 0) -> ValueRecord[PodDisruptionBudget]:
    """Return the record of a PodDisruptionBudget; see `decode_pdb`."""
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    namespace = sys.intern(metadata.namespace or DEFAULT_NAMESPACE)
    never = spec.max_unavailable in (0, "0", "0%") or spec.min_available == "100%"
    if status.disruptions_allowed is None:
        blocks = never or unstated <= 0
    else:
        blocks = status.disruptions_allowed <= 0 or status.observed_generation < metadata.generation
    is_healthy = status.current_healthy >= status.desired_healthy > 0
    selector = label_selector(spec.selector)
    pdb = PodDisruptionBudget(
        namespace=namespace,
        selector=share_value(selector) if selector is not None else None,
        never=never,
        blocks=blocks,
        name=metadata.namespaced_key,
        spares_unready=is_healthy or spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        allows_from=_allows_from(spec.min_available, status.expected_pods),
    )
    return ValueRecord(pdb.name, metadata.uid, metadata.resource_version, pdb)


def _allows_from(min_available: int | str | None, expected_pods: int) -> int:
    """Return `PodDisruptionBudget.allows_from`. A share of the pods, such as 90%, may keep all of any number."""
    return min_available + 1 if isinstance(min_available, int) and min_available >= expected_pods > 0 else 0
