"""Static NodePools: as many nodes as `spec.replicas` says, whatever happens to them and however often it is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.hashing import nodepool_hash
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodepool import VALIDATION_SUCCEEDED, NodePool
from tenon.apis.validation import check
from tenon.disruption.cost import eviction_cost, rescheduling_cost
from tenon.provisioning.claims import standing_claim
from tenon.provisioning.policy import PlanPolicy
from tenon.provisioning.readiness import pool_conditions
from tenon.provisioning.static import StaticClaim, decide, static_claim_name, why_none_are_made
from tenon.provisioning.static_node import NoStaticNode, static_node
from tenon.scheduling.model import Toleration
from tests.planning.fake_view import START, UNREADY, node_class, node_pool
from tests.scheduling.builders import CATALOG, catalog, entry, pod


def static(replicas: int, edits: dict[str, Any] | None = None, **metadata: Any) -> NodePool:
    return node_pool("fixed", {"replicas": replicas, **(edits or {})}, **metadata)


def names(*claims: StaticClaim) -> list[str]:
    return [claim.name for claim in claims]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """What users, EC2 and time do to a static pool: scale it, delete nodes, let them end, launch them, repeat."""
    acts = st.sampled_from(["scale", "delete", "ended", "launched", "repeat", "limit"])
    return draw(st.lists(st.tuples(acts, st.integers(0, 6)), max_size=30))


@given(histories())
def test_sch100_repeated_decisions_reach_the_replicas_and_stay_there(history: list[tuple[str, int]]) -> None:
    """Whatever happened before, one decision more brings the pool to its replicas, and a second changes nothing."""
    pool, generation = static(3, generation=1), 1
    claims: dict[str, StaticClaim] = {}
    given_out: set[str] = set()

    def carry_out() -> None:
        decision = decide(pool, list(claims.values()), given_out)
        for name in decision.create:
            assert name not in claims
            assert name not in given_out
            claims[name] = StaticClaim(name, launched=False)
            given_out.add(name)
        for gone in decision.delete:
            claims[gone.name] = replace(gone, leaving=True)

    for act, number in history:
        standing = sorted(name for name, claim in claims.items() if not claim.leaving)
        going = sorted(name for name, claim in claims.items() if claim.leaving)
        match act:
            case "scale" | "limit":
                generation += 1
                edits = {"limits": {"nodes": str(number)}} if act == "limit" else {}
                pool = static(pool.spec.replicas or 0 if act == "limit" else number, edits, generation=generation)
            case "delete" if standing:
                name = standing[number % len(standing)]
                claims[name] = replace(claims[name], leaving=True)
            case "ended" if going:
                del claims[going[number % len(going)]]
            case "launched" if standing:
                name = standing[number % len(standing)]
                claims[name] = replace(claims[name], launched=True)
            case "repeat":
                carry_out()
    carry_out()
    replicas, limit = pool.spec.replicas or 0, pool.spec.limits.get("nodes")
    staying = [claim for claim in claims.values() if not claim.leaving]
    if limit is None:
        assert len(staying) == replicas
    else:
        assert len(staying) <= replicas
        assert len(staying) == replicas or len(claims) >= int(limit)
    settled = decide(pool, list(claims.values()), given_out)
    assert (settled.create, settled.delete) == ((), ())


def test_the_same_list_gives_the_same_names() -> None:
    """A second leader, or a repeat after a crash, writes what is there already."""
    pool = static(3)
    there = [StaticClaim(static_claim_name(pool, 1))]
    assert decide(pool, there).create == decide(pool, there).create
    assert decide(pool, there).create == (static_claim_name(pool, 0), static_claim_name(pool, 2))


def test_a_name_is_not_given_out_again_while_its_workflow_may_still_run() -> None:
    """After scaling to nothing and back the nodes are others."""
    before, after = static(2, generation=4), static(2, generation=6)
    assert not set(decide(before, []).create) & set(decide(after, []).create)
    assert not set(decide(before, []).create) & set(decide(before, [], decide(before, []).create).create)
    of_another = static(2, generation=4, uid="made-anew")
    assert not set(decide(before, []).create) & set(decide(of_another, []).create)


def test_a_node_on_its_way_out_is_replaced_at_once() -> None:
    """DIS-80, DIS-83: expired or deleted, it no longer counts."""
    pool = static(2)
    first, second = decide(pool, []).create
    decision = decide(pool, [StaticClaim(first, leaving=True), StaticClaim(second)])
    assert len(decision.create) == 1
    assert decision.create[0] not in (first, second)
    assert decision.delete == ()


def test_sch100_limits_hold_back_what_would_be_too_many_at_once() -> None:
    """The limit counts nodes on their way out; what is wanted beyond it is told, and nothing is deleted for it."""
    pool = static(3, {"limits": {"nodes": "4"}})
    leaving = [StaticClaim(f"old-{number}", leaving=True) for number in range(3)]
    decision = decide(pool, leaving)
    assert (len(decision.create), decision.held_back) == (1, 2)
    tight = decide(static(3, {"limits": {"nodes": "1"}}), [StaticClaim("a"), StaticClaim("b")])
    assert (tight.create, tight.delete, tight.held_back) == ((), (), 1)


def test_sch100_scale_down_order() -> None:
    """Unlaunched first, then empty, then by what pods mind; protected last; the older of two equals first."""
    unlaunched = StaticClaim("z-unlaunched", launched=False)
    empty = StaticClaim("y-empty", created="2026-01-02T00:00:00Z")
    older = StaticClaim("x-empty-older", created="2026-01-01T00:00:00Z")
    cheap = StaticClaim("w-cheap", empty=False, cost=1.5)
    dear = StaticClaim("v-dear", empty=False, cost=7)
    held = StaticClaim("a-held", protected=True)
    claims = [held, dear, cheap, empty, older, unlaunched]
    order = names(*decide(static(0), claims).delete)
    assert order == names(unlaunched, older, empty, cheap, dear, held)
    assert names(*decide(static(4), claims).delete) == names(unlaunched, older)


def test_a_pool_that_is_deleted_or_not_static_is_left_alone() -> None:
    assert decide(node_pool(), [StaticClaim("a")]).delete == ()
    deleted = static(1, deletionTimestamp="2026-03-01T12:00:00Z")
    decision = decide(deleted, [StaticClaim("a"), StaticClaim("b")])
    assert (decision.create, decision.delete) == ((), ())


def test_nothing_is_made_while_the_pool_is_not_ready() -> None:
    assert why_none_are_made(static(1), {"default": node_class()}.get) == ""
    assert "not ready" in why_none_are_made(static(1), {"default": node_class("default", UNREADY)}.get)
    schedule = {"disruption/budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}
    assert why_none_are_made(static(1, schedule), {"default": node_class()}.get)


@pytest.mark.parametrize(("on", "status"), [(True, "True"), (False, "False")])
def test_gat05_a_static_pool_says_when_its_gate_is_off(*, on: bool, status: str) -> None:
    conditions = pool_conditions(static(1), {"default": node_class()}.get, START, static_capacity=on)
    found = next(c for c in conditions if c.type == VALIDATION_SUCCEEDED)
    assert found.status == status
    assert ("FEATURE_GATES=StaticCapacity=true" in (found.message or "")) is not on
    assert next(c for c in conditions if c.type == "Ready").status == status


def test_dis20_what_pods_mind() -> None:
    """DIS-20, DIS-22: priority and pod-deletion-cost, within bounds; a pod of negative cost does not count back."""
    assert eviction_cost(0, 0) == 1
    assert eviction_cost(2**25, 0) == eviction_cost(0, 2**27) == 2
    assert eviction_cost(2_000_000_000, 2**31) == 10
    assert eviction_cost(-(2**31), -(2**31)) == -10
    assert rescheduling_cost([]) == 1
    assert rescheduling_cost([(0, 0), (0, -(2**31)), (2**25, 0)]) == 4


def test_a_static_claim_carries_what_claims_of_pools_carry() -> None:
    """NC-01, NC-02: all but the pods that it would be for, and no batch."""
    edits = {
        "template/metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
        "template/spec/taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "template/spec/expireAfter": "48h",
        "template/spec/requirements": [{"key": labels.ZONE, "operator": "In", "values": ["us-west-2b"]}],
    }
    pool = static(1, edits)
    daemons = [pod("log", cpu="7", memory="1Gi", tolerations=(Toleration(operator="Exists"),))]
    planned = static_node(pool, CATALOG, daemons, {}, PlanPolicy())
    body = standing_claim(planned, pool, static_claim_name(pool, 0))
    metadata, spec = body["metadata"], body["spec"]
    assert check(NodeClaim.model_validate(body)) == []
    found = {labels.NODEPOOL: "fixed", labels.ZONE: "us-west-2b", "team": "a", labels.EC2NODECLASS: "default"}
    assert found.items() <= metadata["labels"].items()
    assert labels.BATCH not in metadata["labels"]
    assert metadata["annotations"].keys() == {"note", labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION}
    assert metadata["annotations"][labels.NODEPOOL_HASH] == nodepool_hash(pool)
    assert metadata["ownerReferences"][0]["uid"] == pool.metadata.uid
    assert metadata["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert (spec["expireAfter"], spec["taints"][0]["key"]) == ("48h", "k")
    assert spec["resources"]["requests"]["cpu"] == "7"
    small = {kind.name for kind in CATALOG if kind.capacity["cpu"] <= 4000}
    assert not small & set(planned.instance_types), "every type holds the DaemonSets"


def test_a_static_node_that_cannot_be_bought_says_why() -> None:
    with pytest.raises(NoStaticNode, match="fixed"):
        static_node(static(1), catalog(entry("x1.large", 2, 4, 0.1)), [pod("big", cpu="9")], {}, PlanPolicy())
