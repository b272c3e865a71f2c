"""Where the inputs of a plan or a disruption decision are, as its entry says it."""

from __future__ import annotations

from typing import NamedTuple


class KeptInputs(NamedTuple):
    """The digest of inputs that are kept, or why they are not. Both are empty if no one keeps inputs."""

    digest: str = ""
    lacking: str = ""


NOT_KEPT = KeptInputs()
