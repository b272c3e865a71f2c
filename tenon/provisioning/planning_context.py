"""What planning needs to know of a cluster in addition to the problem: whether anything changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Values that change when a pod that did not fit anywhere might fit now."""

    supply: object
    """Covers existing capacity and what can be bought."""
    namespaces: object
    """Covers the labels of namespaces, which matter for pods with a namespaceSelector."""
