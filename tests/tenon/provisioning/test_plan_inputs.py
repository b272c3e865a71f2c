"""The inputs of a plan, from a problem to small documents and back."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis.purchase_goals import Goals
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.selectors import LabelSelector
from tenon.provisioning.input_documents import UnreadableInputsError
from tenon.provisioning.kept_catalogue import Change, KeptOffering, KeptType
from tenon.provisioning.plan_decoder import PlanInputDecoder
from tenon.provisioning.plan_digest import plan_digest
from tenon.provisioning.plan_document import MAX_NODES, InputsTooLargeError, PlanDocument
from tenon.provisioning.plan_encoder import PlanInputEncoder
from tenon.provisioning.solving import BatchSolver, solve_with_buffers
from tenon.scheduling.model import Commitment, InstanceType, Offering, Plan, Problem
from tenon.scheduling.offerings.hourly_cost import TOTAL_HOURLY_COST, with_costs
from tests.tenon.scheduling.builders import CATALOG, TOLERATES_ALL, ZONES, node, pod, pool, problem, replicas
from tests.tenon.scheduling.mixed_problem import EVEN, mixed
from tests.tenon.scheduling.random_problems import problems
from tests.tenon.scheduling.test_topology_properties import problems as problems_with_rules

T = TypeVar("T")


def again(value: Problem) -> Problem:
    """The problem as it is read back."""
    inputs = PlanInputEncoder().encode(value)
    return PlanInputDecoder(inputs.catalogues.__getitem__).decode(inputs.digest, inputs.plan)


def parts(plan: Plan) -> object:
    """What a plan decides, without the objects of its pods."""
    return (
        plan_digest(plan),
        [(claim.price, claim.offering, dict(claim.requests)) for claim in plan.claims],
        {name: sorted(pod.key for pod in pods) for name, pods in plan.placements.items()},
        dict(plan.unschedulable),
    )


def assert_same_plan(value: Problem) -> None:
    assert parts(solve_with_buffers(again(value))) == parts(solve_with_buffers(value))


@settings(max_examples=150)
@given(problems())
def test_what_is_read_back_has_the_same_plan(value: Problem) -> None:
    assert_same_plan(value)


@settings(max_examples=150)
@given(problems_with_rules(), st.sampled_from([1.0, 1.0, 0.5]))
def test_rules_about_running_pods_still_hold(value: Problem, share: float) -> None:
    assert_same_plan(replace(value, most_pods_share=share))


@settings(max_examples=30)
@given(problems(), st.sampled_from([Goals(spot_share=0.5), Goals(zone_balance=0.1, newer_generations=0.1)]))
def test_limits_on_costs_and_goals_still_hold(value: Problem, goals: Goals) -> None:
    pools = [
        with_costs(replace(own, goals=goals, limits={**(own.limits or {}), TOTAL_HOURLY_COST: 200_000}))
        for own in value.pools
    ]
    assert_same_plan(replace(value, pools=pools))


@settings(max_examples=30)
@given(problems(), st.lists(st.integers(1, 10), min_size=3, max_size=3))
def test_spot_placement_scores_still_choose_zones(value: Problem, scores: list[int]) -> None:
    by_zone_id = dict(zip(ZONES, scores, strict=True))
    pools = [
        replace(
            own,
            goals=Goals(placement_scores=0.1),
            spot_scores=by_zone_id,
            instance_types=[
                replace(kind, offerings=tuple(replace(o, zone_id=o.zone) for o in kind.offerings))
                for kind in own.instance_types
            ],
        )
        for own in value.pools
    ]
    assert_same_plan(replace(value, pools=pools))


@settings(max_examples=30)
@given(problems(), st.integers(0, 60))
def test_commitments_still_cover_nodes(value: Problem, amount: int) -> None:
    kinds = sorted({kind.name for own in value.pools for kind in own.instance_types})
    commitment = Commitment("Reserved Instances", amount, dict.fromkeys(kinds[::2], 8), "us-west-2a")
    assert_same_plan(replace(value, pools=[replace(own, commitments=(commitment,)) for own in value.pools]))


@given(problems(), st.randoms(use_true_random=False))
def test_equal_problems_have_equal_digests_in_any_order(value: Problem, chance: random.Random) -> None:
    def shuffled(items: Sequence[T]) -> list[T]:
        return chance.sample(list(items), len(items))

    other = replace(
        value,
        pods=shuffled(value.pods),
        pools=shuffled(value.pools),
        nodes=shuffled(value.nodes),
        daemons=shuffled(value.daemons),
    )
    digest = PlanInputEncoder().encode(value).digest
    assert PlanInputEncoder().encode(other).digest == digest
    assert PlanInputEncoder().encode(again(value)).digest == digest


def test_everything_that_a_plan_depends_on_changes_the_digest() -> None:
    value = mixed()
    changes: list[Problem] = [
        replace(value, pods=value.pods[1:]),
        replace(value, nodes=[replace(value.nodes[0], used={"cpu": 1})]),
        replace(value, nodes=[replace(value.nodes[0], closed=True)]),
        replace(value, daemons=[pod("daemon", "10m", tolerations=TOLERATES_ALL)]),
        replace(value, pools=[replace(value.pools[0], limits={"nodes": 1})]),
        replace(value, pools=[replace(value.pools[0], instance_types=CATALOG[1:])]),
        replace(value, pools=[replace(value.pools[0], goals=Goals(spot_share=0.5))]),
        replace(value, ignore_preferences=True),
        replace(value, min_values_best_effort=True),
        replace(value, node_charge=0.5),
        replace(value, most_pods_share=0.5),
    ]
    digests = [PlanInputEncoder().encode(problem).digest for problem in (value, *changes)]
    assert len(set(digests)) == len(digests)


def test_whatever_a_problem_gains_must_be_kept_too() -> None:
    """A new field that is not kept would make replays wrong without any error."""
    assert {field.name for field in fields(Problem)} <= set(PlanDocument.__struct_fields__)
    of_offering = {*KeptOffering.__struct_fields__, *Change.__struct_fields__}
    assert {field.name for field in fields(Offering)} <= of_offering
    assert {field.name for field in fields(InstanceType)} == set(KeptType.__struct_fields__)


def test_refusals_and_free_places_are_in_the_plan_and_not_in_the_catalogue() -> None:
    """The catalogue changes rarely and is large, so plans must share it while offerings come and go."""
    first = CATALOG[0]
    refused = replace(first, offerings=(replace(first.offerings[0], available=False), *first.offerings[1:]))
    reserved = replace(first, offerings=(*first.offerings, _reservation(places=3)))
    full = replace(first, offerings=(*first.offerings, _reservation(places=0)))
    encoder = PlanInputEncoder()
    catalogues = []
    for kinds in ([first], [refused], [reserved], [full]):
        inputs = encoder.encode(problem([pod("a")], pool(types=kinds)))
        catalogues.append(next(iter(inputs.catalogues)))
        (decoded_pool,) = PlanInputDecoder(inputs.catalogues.__getitem__).decode(inputs.digest, inputs.plan).pools
        assert list(decoded_pool.instance_types) == kinds
    assert catalogues[0] == catalogues[1] != catalogues[2] == catalogues[3]


def _reservation(places: int) -> Offering:
    return Offering(
        "us-west-2a", "reserved", 0.01, reservation_id="cr-1", reservation_capacity=places, counted_at=places + 1.0
    )


def test_pools_that_buy_the_same_types_share_the_list_again() -> None:
    """The engine indexes each list once."""
    types = list(CATALOG)
    pools = [replace(pool(name), instance_types=types) for name in ("a", "b")]
    pools.append(pool("c", types=types[:3]))
    first, second, third = again(problem([pod("a")], *pools)).pools
    assert first.instance_types is second.instance_types
    assert len(third.instance_types) == 3


def test_replicas_are_described_once_and_keep_their_names() -> None:
    value = problem(replicas(1000, "300m", rules=EVEN), pool())
    inputs = PlanInputEncoder().encode(value)
    document = json.loads(gzip.decompress(inputs.plan))
    assert len(document["kinds"]) == 1
    assert len(inputs.plan) < 8_000
    assert {pod.key for pod in again(value).pods} == {pod.key for pod in value.pods}


def test_a_running_pod_that_no_rule_concerns_is_left_out() -> None:
    alone = PodRules(anti_affinity=(PodTerm("kubernetes.io/hostname", LabelSelector()),))
    running = (pod("plain"), pod("alone", rules=alone))
    value = problem([pod("a")], pool(), nodes=[node("n1", pods=running)])
    (decoded_node,) = again(value).nodes
    assert [pod.rules.anti_affinity for pod in decoded_node.pods] == [alone.anti_affinity]
    (decoded_node,) = again(replace(value, pods=[pod("a", rules=EVEN)])).nodes
    assert len(decoded_node.pods) == 2


def test_what_is_too_large_is_refused_with_the_reason() -> None:
    nodes = [node("n")] * (MAX_NODES + 1)
    with pytest.raises(InputsTooLargeError, match=r"have 5001 nodes, and at most 5000 are kept"):
        PlanInputEncoder().encode(problem([pod("a")], pool(), nodes=nodes))
    chance = random.Random(1)
    names = [f"pod-{chance.getrandbits(128):032x}" for _ in range(10_000)]
    with pytest.raises(InputsTooLargeError, match=r"bytes, and at most 100000 are kept"):
        PlanInputEncoder().encode(problem([pod(name) for name in names], pool()))


def test_a_damaged_or_newer_document_is_refused() -> None:
    inputs = PlanInputEncoder().encode(mixed())

    decoder = PlanInputDecoder(inputs.catalogues.__getitem__)
    for plan in (b"", b"text", inputs.plan[:-20], gzip.compress(b"{}")):
        with pytest.raises(UnreadableInputsError, match=inputs.digest):
            decoder.decode(inputs.digest, plan)
    with pytest.raises(UnreadableInputsError, match="is damaged"):
        decoder.decode("0" * 64, inputs.plan)
    newer = json.dumps({**json.loads(gzip.decompress(inputs.plan)), "version": 99}).encode()
    with pytest.raises(UnreadableInputsError, match="has version 99, and this tenon reads up to 1: use a newer one"):
        decoder.decode(hashlib.sha256(newer).hexdigest(), gzip.compress(newer))


def test_plans_with_the_same_types_share_their_list_after_decoding() -> None:
    first, second = mixed(), replace(mixed(), pods=[pod("other")])
    encoder = PlanInputEncoder()
    inputs = [encoder.encode(value) for value in (first, second)]
    decoder = PlanInputDecoder(inputs[0].catalogues.__getitem__)
    problems = [decoder.decode(plan_inputs.digest, plan_inputs.plan) for plan_inputs in inputs]
    assert problems[0].pools[0].instance_types is problems[1].pools[0].instance_types


def test_a_decoded_catalogue_serves_a_solver_of_many_batches() -> None:
    value = mixed()
    solver = BatchSolver()
    assert [parts(solver(again(value))) for _ in range(2)] == [parts(solve_with_buffers(value))] * 2
