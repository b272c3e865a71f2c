"""Finds the PodDisruptionBudgets that cover a pod, so that a blocked drain can name them."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.kube import object_json
from tenon.kube.pod_disruption_budgets import eviction_refusal
from tenon.kube.selectors import selects
from tenon.kube.structs import Object


def covering(pod: Object, pdbs: Iterable[Object]) -> list[Object]:
    """Return the PodDisruptionBudgets in the pod's namespace that select the pod, sorted by name."""
    metadata = pod["metadata"]
    found = [
        pdb
        for pdb in pdbs
        if pdb["metadata"].get("namespace") == metadata.get("namespace")
        and selects((pdb.get("spec") or {}).get("selector"), object_json.labels(pod))
    ]
    return sorted(found, key=object_json.key)


def explain(pod: Object, pdbs: Iterable[Object], *, by_pdb: bool, answer: str) -> str:
    """Say why the pod's eviction was refused. The text continues a sentence that starts with the pod's name.

    Args:
        pod: the pod that was not evicted.
        pdbs: the PodDisruptionBudgets of its namespace.
        by_pdb: whether the API server named a PodDisruptionBudget as the cause.
        answer: the API server's message.
    """
    names = [object_json.key(pdb) for pdb in covering(pod, pdbs)]
    why = eviction_refusal(names, names if by_pdb else ()) or answer or "Kubernetes refused and gave no reason"
    more = ", and Kubernetes never evicts a pod with more than one" if len(names) > 1 else ""
    return f"cannot be evicted: {why}{more}"
