"""The annotation of a NodePool that makes expired nodes wait for its disruption budgets (WSH-28, QRK-13)."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.apis.boolean_annotations import read_boolean


def expires_within_budgets(annotations: Mapping[str, str]) -> bool:
    """Return whether expired nodes of a NodePool with these annotations wait for its budgets.

    If the annotation cannot be read, they wait, so that a typo never costs a node.
    """
    text = annotations.get(labels.EXPIRE_WITHIN_BUDGETS)
    try:
        return text is not None and read_boolean(text)
    except ValueError:  # the NodePool's condition ValidationSucceeded says why
        return True
