"""Static NodePools: as many nodes as `spec.replicas` says, whatever happens to them and however often it is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.conditions import VALIDATION_SUCCEEDED
from tenon.apis.hashing import nodepool_hash
from tenon.apis.nodeclaim import DISRUPTION_REASON, NodeClaim
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import check
from tenon.disruption.search.cost import eviction_cost, rescheduling_cost
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.taints import Toleration
from tenon.provisioning.claims import static_claim_body
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.readiness import pool_conditions, why_unusable
from tenon.provisioning.static_capacity import (
    MAX_CHANGES,
    ReplicaBalance,
    StaticClaim,
    balance,
    decide,
    next_ordinal,
    static_claim_name,
    usable_static_pools,
    why_no_new_nodes,
)
from tenon.provisioning.static_node import static_node
from tenon.scheduling.empty_node import NoEmptyNodeError
from tests.activities.provisioning.fake_view import START, UNREADY, node_class, node_pool
from tests.tenon.scheduling.builders import CATALOG, catalog, entry, pod


def static(replicas: int, edits: dict[str, Any] | None = None, *, ordinal: int = 0, **metadata: Any) -> NodePool:
    borne = {labels.NEXT_ORDINAL: str(ordinal)}
    return node_pool("fixed", {"replicas": replicas, **(edits or {})}, annotations=borne, **metadata)


def counted_on(pool: NodePool, *, ordinal: int) -> NodePool:
    """The pool with another ordinal."""
    metadata = pool.metadata.model_copy(update={"annotations": {labels.NEXT_ORDINAL: str(ordinal)}})
    return pool.model_copy(update={"metadata": metadata})


def made(name: str, *, created: str = "", launched: bool = True, replaced: bool = False, **decides: Any) -> StaticClaim:
    condition = {"type": DISRUPTION_REASON, "status": "True"}
    status = {"providerID": "aws:///us-west-2a/i-1" if launched else "", "conditions": [condition] if replaced else []}
    metadata = {"name": name, "uid": "", "creationTimestamp": created}
    return StaticClaim(ClaimRecord.of({"metadata": metadata, "spec": {}, "status": status}), **decides)


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
    pool = static(3)
    claims: dict[str, StaticClaim] = {}
    given_out: set[str] = set()

    def carry_out() -> None:
        nonlocal pool
        decision = decide(pool, list(claims.values()))
        for name in decision.create:
            assert name not in claims
            assert name not in given_out
            claims[name] = made(name, launched=False)
            given_out.add(name)
        if decision.create:
            pool = counted_on(pool, ordinal=decision.next_ordinal)
        for removal in decision.delete:
            claims[removal.name] = replace(removal, leaving=True)

    for act, number in history:
        standing = sorted(name for name, claim in claims.items() if not claim.leaving)
        names = sorted(name for name, claim in claims.items() if claim.leaving)
        match act:
            case "scale" | "limit":
                edits = {"limits": {"nodes": str(number)}} if act == "limit" else {}
                replicas = pool.spec.replicas or 0 if act == "limit" else number
                pool = static(replicas, edits, ordinal=next_ordinal(pool))
            case "delete" if standing:
                name = standing[number % len(standing)]
                claims[name] = replace(claims[name], leaving=True)
            case "ended" if names:
                del claims[names[number % len(names)]]
            case "launched" if standing:
                name = standing[number % len(standing)]
                claims[name] = replace(claims[name], record=made(name).record)
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
    settled = decide(pool, list(claims.values()))
    assert (settled.create, settled.delete) == ((), ())


def test_the_same_pool_gives_the_same_names() -> None:
    """A second leader, or a repeat after a crash, writes what is there already, whichever spec it read."""
    pool = static(3, ordinal=7)
    first, second, third = (static_claim_name(pool, ordinal) for ordinal in (7, 8, 9))
    assert decide(pool, []).create == (first, second, third)
    assert decide(static(3, ordinal=7, generation=9), []).create == (first, second, third)
    assert decide(pool, [made(second)]).create == (first, third)
    assert decide(pool, [made(second)]).next_ordinal == 10


def test_a_name_does_not_return_when_its_claim_is_gone() -> None:
    """Its workflow may still run; after scaling to nothing and back the nodes are others."""
    before = static(2)
    decided = decide(before, [])
    after = static(2, ordinal=decided.next_ordinal)
    assert not set(decided.create) & set(decide(after, []).create)
    assert not set(decided.create) & set(decide(static(2, uid="made-anew"), []).create)


def test_what_was_given_out_over_the_years_costs_nothing() -> None:
    """The names of a pool that EC2 refuses for ever are not walked again; what is no ordinal counts as none."""
    assert decide(static(1, ordinal=10**17), []).next_ordinal == 10**17 + 1
    for text in ("", "-1", "x", "9" * 5000, "\u0663"):
        assert next_ordinal(node_pool("fixed", annotations={labels.NEXT_ORDINAL: text})) == 0


def test_large_changes_are_made_in_parts() -> None:
    """Between them the pool is read again, which may say something else by then."""
    assert len(decide(static(5000), []).create) == MAX_CHANGES
    assert len(decide(static(0), [made(f"c-{number}") for number in range(120)]).delete) == MAX_CHANGES
    assert decide(static(5000), [], may_make=1).create == (static_claim_name(static(1), 0),)
    assert decide(static(5000), [], may_make=0).create == ()


def test_a_node_on_its_way_out_is_replaced_at_once() -> None:
    """DIS-80, DIS-83: expired or deleted, it no longer counts."""
    pool = static(2)
    first, second = decide(pool, []).create
    decision = decide(pool, [made(first, leaving=True), made(second)])
    assert len(decision.create) == 1
    assert decision.create[0] not in (first, second)
    assert decision.delete == ()


def test_sch100_limits_hold_back_what_would_be_too_many_at_once() -> None:
    """The limit counts nodes on their way out; what is wanted beyond it is told, and nothing is deleted for it."""
    pool = static(3, {"limits": {"nodes": "4"}})
    leaving = [made(f"old-{number}", leaving=True) for number in range(3)]
    decision = decide(pool, leaving)
    assert len(decision.create) == 1
    assert balance(pool, 0, 3) == ReplicaBalance(missing=1, held_back=2)
    narrow = static(3, {"limits": {"nodes": "1"}})
    tight = decide(narrow, [made("a"), made("b")])
    assert (tight.create, tight.delete) == ((), ())
    assert balance(narrow, 2, 0) == ReplicaBalance(held_back=1)


def test_sch100_scale_down_order() -> None:
    """Unlaunched first, then empty, then by what pods mind; protected last; the older of two equals first."""
    unlaunched = made("z-unlaunched", launched=False)
    empty = made("y-empty", created="2026-01-02T00:00:00Z")
    older = made("x-empty-older", created="2026-01-01T00:00:00Z")
    cheap = made("w-cheap", empty=False, cost=1.5)
    dear = made("v-dear", empty=False, cost=7)
    static_claim = made("a-held", protected=True)
    claims = [static_claim, dear, cheap, empty, older, unlaunched]
    order = names(*decide(static(0), claims).delete)
    assert order == names(unlaunched, older, empty, cheap, dear, static_claim)
    assert names(*decide(static(4), claims).delete) == names(unlaunched, older)


def test_dis56_budgets_do_not_hold_back_a_scale_down() -> None:
    pool = static(1, {"disruption/budgets": [{"nodes": "0"}]})
    assert names(*decide(pool, [made("a"), made("b"), made("c")]).delete) == ["a", "b"]


def test_dis02_a_node_that_a_command_replaces_is_neither_a_gap_nor_a_surplus() -> None:
    """From the taint until its replacement is initialized, and the command deletes it."""
    pool = static(2)
    old, other, new = made("a-old", replaced=True), made("b"), made("c", launched=False)
    for claims in ([old, other], [old, other, new], [replace(old, leaving=True), other, new]):
        decision = decide(pool, claims)
        assert (decision.create, decision.delete) == ((), ())
    assert names(*decide(static(1), [old, other, new]).delete) == names(new), "scaled down meanwhile"
    assert len(decide(static(3), [old, other]).create) == 1, "scaled up meanwhile"
    assert names(*decide(pool, [made("a-old"), other, new]).delete) == names(new), "it was given up"


def test_a_pool_that_is_deleted_or_not_static_is_left_alone() -> None:
    assert decide(node_pool(), [made("a")]).delete == ()
    deleted = static(1, deletionTimestamp="2026-03-01T12:00:00Z")
    decision = decide(deleted, [made("a"), made("b")])
    assert (decision.create, decision.delete) == ((), ())


def test_a_pool_whose_cluster_is_torn_down_buys_nothing_and_keeps_what_it_has() -> None:
    pool = counted_on(static(3), ordinal=0)
    annotations = {**pool.metadata.annotations, labels.TEARDOWN: "teardown/prod"}
    ending = pool.model_copy(update={"metadata": pool.metadata.model_copy(update={"annotations": annotations})})
    assert decide(ending, []).create == ()
    assert decide(pool, []).create != ()
    classes = {"default": node_class()}.get
    assert usable_static_pools([pool, ending], classes) == [pool]
    assert "the cluster is being torn down" in why_unusable(ending, classes)


def test_nothing_is_made_while_the_pool_is_not_ready() -> None:
    assert why_no_new_nodes(static(1), {"default": node_class()}.get) == ""
    assert "not ready" in why_no_new_nodes(static(1), {"default": node_class("default", UNREADY)}.get)
    schedule = {"disruption/budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}
    assert why_no_new_nodes(static(1, schedule), {"default": node_class()}.get)


@pytest.mark.parametrize(("on", "status"), [(True, "True"), (False, "False")])
def test_gat05_a_static_pool_says_when_its_gate_is_off(*, on: bool, status: str) -> None:
    conditions = pool_conditions(static(1), {"default": node_class()}.get, START, static_capacity=on)
    condition = next(c for c in conditions if c.type == VALIDATION_SUCCEEDED)
    assert condition.status == status
    assert ("FEATURE_GATES=StaticCapacity=true" in (condition.message or "")) is not on
    assert next(c for c in conditions if c.type == "Ready").status == status


def test_dis20_the_cost_of_evicting_a_pod() -> None:
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
    planned, _ = static_node(pool, CATALOG, daemons, {}, PlanPolicy())
    body = static_claim_body(planned, pool, static_claim_name(pool, 0))
    metadata, spec = body["metadata"], body["spec"]
    assert check(NodeClaim.model_validate(body)) == []
    result = {labels.NODEPOOL: "fixed", labels.ZONE: "us-west-2b", "team": "a", labels.EC2NODECLASS: "default"}
    assert result.items() <= metadata["labels"].items()
    assert labels.BATCH not in metadata["labels"]
    hashes = {labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION}
    assert metadata["annotations"].keys() == {"note", labels.MIN_VALUES_RELAXED, *hashes}
    assert metadata["annotations"][labels.NODEPOOL_HASH] == nodepool_hash(pool)
    assert metadata["ownerReferences"][0]["uid"] == pool.metadata.uid
    assert metadata["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert (spec["expireAfter"], spec["taints"][0]["key"]) == ("48h", "k")
    assert spec["resources"]["requests"]["cpu"] == "7"
    small = {kind.name for kind in CATALOG if kind.capacity["cpu"] <= 4000}
    assert not small & set(planned.instance_types), "every type holds the DaemonSets"


def test_sch026_static_claims_have_the_label_of_which_their_pool_lists_several_values() -> None:
    term = {"key": "example.com/tier", "operator": "In", "values": ["silver", "gold"]}
    pool = static(2, {"template/spec/requirements": [term]})
    planned, _ = static_node(pool, CATALOG, [], {}, PlanPolicy())
    bodies = [static_claim_body(planned, pool, static_claim_name(pool, number)) for number in range(2)]
    assert [body["metadata"]["labels"]["example.com/tier"] for body in bodies] == ["gold", "gold"]


@pytest.mark.parametrize(("expectation", "text"), [(2, "false"), (50, "true")])
def test_ann05_a_static_claim_says_whether_min_values_were_lowered(expectation: int, text: str) -> None:
    """SCH-031: with MIN_VALUES_POLICY=BestEffort; its launch leaves the fleet's context out for it."""
    term = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": expectation}
    pool = static(1, {"template/spec/requirements": [term]})
    planned, _ = static_node(pool, CATALOG, [], {}, PlanPolicy(min_values_best_effort=True))
    assert static_claim_body(planned, pool, "c")["metadata"]["annotations"][labels.MIN_VALUES_RELAXED] == text


@pytest.mark.parametrize("cpu", ["", "7"])
def test_a_static_claim_explains_why_it_is_bought(cpu: str) -> None:
    daemons = [pod("log", cpu=cpu, tolerations=(Toleration(operator="Exists"),))] if cpu else []
    planned, why = static_node(static(3), CATALOG, daemons, {}, PlanPolicy())
    assert why.purpose == "one of 3 replicas of static NodePool fixed"
    assert why.types.startswith(f"cheapest available types that fit: {planned.instance_types[0]}")
    count = len(planned.instance_types)
    condition = "hold 7 CPU" if cpu else "its NodePool allows;"
    assert f"the cheapest of {count} types that {condition}" in why.choice
    assert why.price.startswith(f"planned price: ${planned.price:.4f} an hour ({planned.instance_types[0]}")


def test_a_static_node_that_cannot_be_bought_says_why() -> None:
    with pytest.raises(NoEmptyNodeError, match="fixed"):
        static_node(static(1), catalog(entry("x1.large", 2, 4, 0.1)), [pod("big", cpu="9")], {}, PlanPolicy())
