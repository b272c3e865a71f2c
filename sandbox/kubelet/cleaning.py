"""Removes what a node left outside of its namespaces: also after it was killed, and could not do so itself."""

from __future__ import annotations

import shutil

from sandbox.kubelet import cgroups
from sandbox.layout import Layout


def clean(layout: Layout) -> None:
    """Remove the cgroups and files of a node that has ended. Does nothing if there was none.

    Raises:
        OSError: a process of it still runs.
    """
    if layout.node.exists():
        cgroups.remove(cgroups.name(layout.root))
        shutil.rmtree(layout.node, ignore_errors=True)
