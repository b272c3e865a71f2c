"""What NodeClaims, Nodes and NodePools say about a switch: which are in the middle of their lives, and which the
successor has taken over. Temporal is not asked, because a guide must also work while Tenon cannot reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.apis.hashing import NODEPOOL_VERSION
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import manages_claim, manages_pool
from tenon.kube import object_json
from tenon.kube.conditions import condition, is_true

DISRUPTED = ("karpenter.sh/disrupted", "karpenter.sh/disruption")
"""Keys of the taints of nodes that a controller wants to disrupt; the second is that of v1beta1."""


def unsettled(claims: Iterable[JsonObject], nodes: Iterable[JsonObject]) -> list[str]:
    """Say which NodeClaims are in the middle of their lives, apart from drains, which go on under any controller.

    What waits for a budget may wait for days, so a drain is not waited for.
    """
    tainted = {
        str((node.get("spec") or {}).get("providerID") or "")
        for node in nodes
        if any(taint.get("key") in DISRUPTED for taint in (node.get("spec") or {}).get("taints") or ())
    }
    sentences = []
    for claim in sorted(claims, key=_name):
        if not manages_claim(claim) or object_json.is_deleting(claim):
            continue
        name = _name(claim)
        if not provider_id(claim):
            sentences.append(f"NodeClaim {name} is not launched yet")
        elif is_true(claim, "Rebooting"):
            sentences.append(f"the node of NodeClaim {name} reboots")
        elif not is_true(claim, "Initialized"):
            sentences.append(f"the node of NodeClaim {name} has not become ready yet")
        elif provider_id(claim) in tainted:
            sentences.append(f"NodeClaim {name} is about to be disrupted")
    return sentences


def behind(pools: Iterable[JsonObject], claims: Iterable[JsonObject], unready_before: Iterable[str]) -> list[str]:
    """Say what Tenon, which leads, has not taken over yet.

    Tenon writes its own hash version on each NodePool that it reconciles, and before that on the NodeClaims of it.

    Args:
        pools: all NodePools.
        claims: all NodeClaims.
        unready_before: names of NodePools that were not Ready under Karpenter either.
    """
    before = set(unready_before)
    live = [pool for pool in pools if manages_pool(pool) and not object_json.is_deleting(pool)]
    sentences = []
    for pool in sorted(live, key=_name):
        name = _name(pool)
        if name in before:
            continue
        if not is_true(pool, "Ready"):
            ready = condition(pool, "Ready")
            reason = str(ready.get("message") or ready.get("reason") or "it has no condition Ready")
            sentences.append(f"NodePool {name} is not Ready: {reason}")
        elif object_json.annotations(pool).get(labels.NODEPOOL_HASH_VERSION) != NODEPOOL_VERSION:
            sentences.append(f"NodePool {name} is not reconciled yet")
    names = {_name(pool) for pool in live} - before
    for claim in sorted(claims, key=_name):
        version = object_json.annotations(claim).get(labels.NODEPOOL_HASH_VERSION, NODEPOOL_VERSION)
        is_live = manages_claim(claim) and not object_json.is_deleting(claim)
        if is_live and version != NODEPOOL_VERSION and object_json.labels(claim).get(labels.NODEPOOL) in names:
            sentences.append(f"NodeClaim {_name(claim)} is not reconciled yet")
    return sentences


def unready_pools(pools: Iterable[JsonObject]) -> list[str]:
    """Names of the NodePools that are not Ready."""
    return sorted(_name(pool) for pool in pools if manages_pool(pool) and not is_true(pool, "Ready"))


def instances(claims: Iterable[JsonObject]) -> dict[str, str]:
    """NodeClaim -> instance ID, empty if it is not launched; the managed ones that are not being deleted."""
    return {
        _name(claim): provider_id(claim).rpartition("/")[2]
        for claim in claims
        if manages_claim(claim) and not object_json.is_deleting(claim)
    }


def provider_id(claim: JsonObject) -> str:
    """The provider ID of a NodeClaim; empty if it is not launched."""
    return str((claim.get("status") or {}).get("providerID") or "")


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What the nodes of two looks at a cluster differ in."""

    unchanged: int
    bought: Sequence[str]
    """NodeClaims that only the later look has, or whose instance is another."""
    ended: Sequence[str]
    """NodeClaims that only the earlier look has."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was bought or ended."""
        return not self.bought and not self.ended


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> NodeChanges:
    """Compare two results of `instances`. A NodeClaim that was launched in between counts as bought."""
    same = {name for name, instance in before.items() if after.get(name) == instance}
    bought = sorted(name for name, instance in after.items() if instance and name not in same)
    ended = sorted(name for name in before if name not in after)
    return NodeChanges(len(same), bought, ended)
