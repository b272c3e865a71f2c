"""Makes sure that a plan does not buy nodes twice because the cache is behind the API server.

The cache may be stale without any sign of it: a watch that a proxy or a dead connection holds back looks like a quiet
one. Two kinds of objects must not be stale, or nodes are bought twice:

- NodeClaims: batches follow one another and a watch keeps the order, so claims that the cache lacks belong to the
  newest batch that it knows or to a newer one. One small list by label finds them, and shows whether this batch was
  planned before. The planner waits a moment for missing claims and then reads all NodeClaims again. Claims that have
  been deleted meanwhile do not delay it.
- Pods: if their watch has been silent for some seconds, they are read again, but only if the plan is about to buy
  something. In a cluster with many pods a silent watch is a broken one; with few pods the list is cheap. The resource
  version of a list proves nothing: it belongs to the whole store, and no event of one quiet resource ever reaches it.

Other stale objects, such as a Node or a NodePool, make a plan worse but do not double it, until the silent watch is
detected.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from temporalio.exceptions import ApplicationError

from activities.cluster_view.interfaces import ClusterView
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels

_T = TypeVar("_T")


async def claims_of_batch(view: ClusterView, kube: Kube, batch: int) -> list[str]:
    """Return the names of this batch's existing NodeClaims. Afterwards the view has those of all other batches.

    Raises:
        ApplicationError: the cache is not synced or cannot catch up. Temporal retries the plan.
    """
    if not view.synced():
        raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
    newest = view.newest_batch(batch)
    existing_claims = await kube.list(NODECLAIMS, label_selector=f"{labels.BATCH}>{max(0, newest - 1)}")
    batch_of = {claim["metadata"]["name"]: claim["metadata"]["labels"][labels.BATCH] for claim in existing_claims}
    written = sorted(name for name, of_batch in batch_of.items() if of_batch == str(batch))
    if not written and (missing := batch_of.keys() - view.claim_names()):
        await _caught_up(view.catch_up(missing))
    return written


async def pods_were_stale(view: ClusterView) -> bool:
    """Make sure that the pods are at most a few seconds old. Return whether they had to be read again.

    Raises:
        ApplicationError: they cannot be read. Temporal retries the plan.
    """
    return await _caught_up(view.confirm_pods())


async def _caught_up(reading: Awaitable[_T]) -> _T:
    try:
        return await reading
    except TimeoutError:
        raise ApplicationError(
            "the cluster cache is behind the API server and could not be read again", type="CacheBehind"
        ) from None
