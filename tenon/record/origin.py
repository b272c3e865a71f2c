"""Says where an entry comes from: the cluster, and the workflow that did it."""

from __future__ import annotations

from typing import NamedTuple


class Origin(NamedTuple):
    """The cluster, and the workflow and its run; these are empty if no workflow did it."""

    cluster: str
    workflow: str = ""
    run: str = ""
