"""What the names of pods say of their controller. The record has the names of pods, and not their owners.

`Pod.workload` is what a pod itself says.
"""

from __future__ import annotations


def workload_of(key: str) -> str:
    """Return what the names of a controller's pods have in common: ``shop/web-5d7c9`` of ``shop/web-5d7c9-x2k4p``.

    A pod whose name has one part is its own workload.
    """
    namespace, _, name = key.partition("/")
    return f"{namespace}/{name.rpartition('-')[0] or name}"
