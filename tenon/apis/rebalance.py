"""The annotation of a NodePool that says what a rebalance recommendation of EC2 does to its spot nodes."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels


def replaces_on_rebalance(annotations: Mapping[str, str]) -> bool:
    """Whether spot nodes of a NodePool with these annotations leave on a recommendation. A malformed value means no."""
    return annotations.get(labels.REPLACE_ON_REBALANCE) == "true"
