"""Finds the PodDisruptionBudgets that cover a pod, so that a blocked drain can name them."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.kube import pods
from tenon.kube.selectors import selects
from tenon.kube.structs import Object


def covering(pod: Object, pdbs: Iterable[Object]) -> list[Object]:
    """Return the PodDisruptionBudgets in the pod's namespace that select the pod, sorted by name."""
    metadata = pod["metadata"]
    found = [
        pdb
        for pdb in pdbs
        if pdb["metadata"].get("namespace") == metadata.get("namespace")
        and selects((pdb.get("spec") or {}).get("selector"), metadata.get("labels") or {})
    ]
    return sorted(found, key=pods.key)


def explain(pod: Object, pdbs: Iterable[Object], *, by_pdb: bool, answer: str) -> str:
    """Say why the pod's eviction was refused. The text continues a sentence that starts with the pod's name.

    Args:
        pod: the pod that was not evicted.
        pdbs: the PodDisruptionBudgets of its namespace.
        by_pdb: whether the API server named a PodDisruptionBudget as the cause.
        answer: the API server's message.
    """
    found = covering(pod, pdbs)
    if len(found) > 1:
        names = ", ".join(pods.key(pdb) for pdb in found)
        return (
            f"cannot be evicted: PodDisruptionBudgets {names} all select it, "
            "and Kubernetes never evicts a pod with more than one"
        )
    if found and by_pdb:
        return f"cannot be evicted: PodDisruptionBudget {pods.key(found[0])} allows 0 more disruptions"
    return f"cannot be evicted: {answer or 'Kubernetes refused and gave no reason'}"
