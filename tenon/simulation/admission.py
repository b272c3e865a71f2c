"""Adds what the API server and the workload controllers write into pods, which pods from files lack.

Rules between pods select by label. Without these labels, a Deployment that spreads by ``pod-template-hash`` or a Job
with anti-affinity on ``job-name`` would be planned differently than a cluster places it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tenon.apis.json_object import JsonObject

_TERMS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
_HASH_DIGITS = 10


def workload_labels(kind: str, name: str, template: JsonObject) -> dict[str, str]:
    """Return the labels that a workload's controller adds to each of its pods."""
    if kind == "Deployment":
        return {"pod-template-hash": _template_hash(template)}
    if kind == "StatefulSet":
        return {"controller-revision-hash": f"{name}-{_template_hash(template)}"}
    if kind == "Job":
        return {"batch.kubernetes.io/job-name": name, "job-name": name}
    return {}


def replica_labels(kind: str, name: str, number: int, *, indexed: bool = False) -> dict[str, str]:
    """Return the labels that the controller adds to the pod with this ordinal. ``indexed``: it is of an Indexed Job."""
    if indexed:
        return {"batch.kubernetes.io/job-completion-index": str(number)}
    if kind == "StatefulSet":
        return {"statefulset.kubernetes.io/pod-name": f"{name}-{number}", "apps.kubernetes.io/pod-index": str(number)}
    return {}


def admitted(pod: JsonObject) -> JsonObject:
    """Return the pod with ``matchLabelKeys`` and ``mismatchLabelKeys`` merged into its affinity terms' selectors.

    The given pod does not change. For pods from a cluster, the API server has already done this and nothing changes.
    """
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    own: dict[str, str] = pod["metadata"].get("labels") or {}
    merged = {
        side: {kind: [_merged(term, own) for term in affinity[side].get(kind) or ()] for kind in _TERMS}
        for side in ("podAffinity", "podAntiAffinity")
        if affinity.get(side) and any(_keyed(term) for term in _pod_terms(affinity[side]))
    }
    return {**pod, "spec": {**spec, "affinity": {**affinity, **merged}}} if merged else pod


def _pod_terms(side: JsonObject) -> Iterator[JsonObject]:
    for kind in _TERMS:
        for term in side.get(kind) or ():
            yield _inner(term)


def _inner(term: JsonObject) -> JsonObject:
    inner: JsonObject = term.get("podAffinityTerm") or term
    return inner


def _keyed(term: JsonObject) -> bool:
    return bool(term.get("matchLabelKeys") or term.get("mismatchLabelKeys"))


def _merged(term: JsonObject, own: dict[str, str]) -> JsonObject:
    if "podAffinityTerm" in term:
        return {**term, "podAffinityTerm": _merged(term["podAffinityTerm"], own)}
    selector = term.get("labelSelector")
    if selector is None:
        return term
    expressions: list[Any] = list(selector.get("matchExpressions") or ())
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            expression = {"key": key, "operator": operator, "values": [own.get(key)]}
            if key in own and expression not in expressions:
                expressions.append(expression)
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}


def _template_hash(template: JsonObject) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True, default=str).encode()).hexdigest()[:_HASH_DIGITS]
