"""The mark on NodePools and EC2NodeClasses of a cluster that ends: Tenon buys and makes nothing for them.

It is an annotation, because the objects are the users': a teardown deletes none of them. It holds in every worker, also
in one that starts later, and users remove it if the cluster is to live on.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels

WHY = f"the cluster is being torn down: remove the annotation {labels.TEARDOWN} if it is to live on"


def is_torn_down(annotations: Mapping[str, str]) -> bool:
    """Whether the object with these annotations has the mark."""
    return labels.TEARDOWN in annotations


def mark(workflow_id: str) -> dict[str, object]:
    """Return the patch that adds the mark. Its value says which workflow added it."""
    return {"metadata": {"annotations": {labels.TEARDOWN: workflow_id}}}
