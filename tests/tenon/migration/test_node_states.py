"""What NodeClaims and NodePools say about a switch."""

from __future__ import annotations

from typing import Any

from tenon.apis.hashing import NODEPOOL_VERSION
from tenon.migration.node_states import behind, difference, instances, unready_pools, unsettled

Object = dict[str, Any]
AUTO = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}


def claim(name: str, *, instance: str = "i-1", version: str | None = "v3", **metadata: Any) -> Object:
    annotations = {"karpenter.sh/nodepool-hash-version": version} if version else {}
    conditions = [{"type": "Initialized", "status": "True"}] if instance else []
    return {
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "a"}, "annotations": annotations, **metadata},
        "spec": {},
        "status": {"providerID": f"aws:///us-west-2a/{instance}" if instance else "", "conditions": conditions},
    }


def pool(name: str, version: str = NODEPOOL_VERSION, ready: str = "True") -> Object:
    return {
        "metadata": {"name": name, "annotations": {"karpenter.sh/nodepool-hash-version": version}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready, "message": "no class"}]},
    }


def tainted(instance: str) -> Object:
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    return {"metadata": {"name": "n"}, "spec": {"providerID": f"aws:///us-west-2a/{instance}", "taints": taints}}


def test_which_nodes_are_in_the_middle_of_their_lives() -> None:
    starting = claim("starting")
    starting["status"]["conditions"] = []
    rebooting = claim("rebooting")
    rebooting["status"]["conditions"].append({"type": "Rebooting", "status": "True"})
    claims = [
        claim("new", instance=""),
        starting,
        rebooting,
        claim("doomed", instance="i-2"),
        claim("calm", instance="i-3"),
        claim("draining", instance="i-2", deletionTimestamp="2026-05-04T12:00:00Z"),
        {**claim("auto", instance=""), "spec": {"nodeClassRef": AUTO}},
    ]
    assert unsettled(claims, [tainted("i-2")]) == [
        "NodeClaim doomed is about to be disrupted",
        "NodeClaim new is not launched yet",
        "the node of NodeClaim rebooting reboots",
        "the node of NodeClaim starting has not become ready yet",
    ]


def test_tenon_is_behind_until_every_nodepool_and_nodeclaim_has_its_hash_version() -> None:
    assert behind([pool("a", "v3")], [claim("x")], []) == [
        "NodePool a is not reconciled yet",
        "NodeClaim x is not reconciled yet",
    ]
    assert behind([pool("a")], [claim("x", version=NODEPOOL_VERSION), claim("y", version=None)], []) == []
    assert behind([pool("a", ready="False")], [], []) == ["NodePool a is not Ready: no class"]


def test_a_nodepool_that_was_not_ready_before_holds_nothing_up() -> None:
    pools = [pool("a", "v3", ready="False"), pool("b")]
    assert unready_pools(pools) == ["a"]
    assert behind(pools, [claim("x")], ["a"]) == []


def test_what_was_bought_and_what_ended_between_two_looks() -> None:
    before = instances([claim("same"), claim("launching", instance=""), claim("gone")])
    after = instances([claim("same"), claim("launching", instance="i-2"), claim("new", instance="i-3")])
    result = difference(before, after)
    assert (result.unchanged, result.bought, result.ended) == (1, ["launching", "new"], ["gone"])
    assert difference(after, after).is_empty
