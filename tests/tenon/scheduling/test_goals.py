"""Goals of NodePools: the share of spot capacity, Spot placement scores, the balance of zones, newer generations.

None keeps a pod waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.purchase_goals import Goals, goals_of, read_premium, read_spot_share
from tenon.apis.validation import check_nodepool
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.goals import goal_sentences
from tenon.scheduling.model import InstanceType, Node, Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.narrowing import GENERATION
from tenon.scheduling.offerings.spot_scores import Configuration, configuration_of
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.scheduling.builders import (
    AMD64,
    CATALOG,
    ON_DEMAND,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    node,
    pool,
    problem,
    replicas,
)

IDS = ("usw2-az2", "usw2-az1", "usw2-az3")
"""Of `ZONES`."""
ONLY_LARGE = catalog(entry("m5.large", 2, 8, 0.1))
TYPES = {kind.name: kind for kind in CATALOG}
WITH_IDS = [
    replace(kind, offerings=tuple(replace(o, zone_id=IDS[ZONES.index(o.zone)]) for o in kind.offerings))
    for kind in CATALOG
]


def planned(value: Problem) -> Plan:
    return solve_with_buffers(value)


def explained(value: Problem, claim: PlannedClaim) -> str:
    return TypeChoiceExplainer(value).why(claim)


def capacity_types(claims: Sequence[PlannedClaim]) -> Counter[str]:
    return Counter(claim.offering.capacity_type for claim in claims)


def own_node(name: str, cpu: str, zone: str = ZONES[0], capacity_type: str = labels.SPOT, **more: Any) -> Node:
    own = {labels.NODEPOOL: "default", labels.CAPACITY_TYPE: capacity_type, labels.ZONE: zone}
    full = {"cpu": 10**6}
    return replace(node(name, cpu, labels=own, **more), used=full)


def generations(*numbers: int, premium: float = 0.02) -> list[InstanceType]:
    """A family per generation; each is dearer than the one before it."""
    return catalog(
        *(
            entry(f"m{number}.large", 2, 8, 0.1 * (1 + premium) ** place, requirements={GENERATION: [str(number)]})
            for place, number in enumerate(numbers)
        )
    )


# --- what users write ---


@pytest.mark.parametrize(("text", "share"), [("0%", 0), ("70%", 0.7), ("33.3%", 0.333), ("100%", 1)])
def test_wsh13_a_spot_share_is_a_percentage(text: str, share: float) -> None:
    assert read_spot_share(text) == pytest.approx(share)
    goals = goals_of({labels.SPOT_SHARE: text})
    assert goals is not None
    assert goals.spot_share == pytest.approx(share)


@pytest.mark.parametrize(
    "key", [labels.SPOT_SHARE, labels.SPOT_PLACEMENT_SCORES, labels.ZONE_BALANCE, labels.NEWER_GENERATIONS]
)
@pytest.mark.parametrize("text", ["", "70", "101%", "-1%", "0.7", "70 %", "٧٠%", "x" * 200])
def test_a_broken_goal_is_a_problem_of_the_nodepool_and_is_not_followed(key: str, text: str) -> None:
    (fault,) = check_nodepool(node_pool(annotations={key: text}))
    assert fault.path == f"metadata.annotations[{key}]"
    assert "percentage: write" in fault.sentence
    assert goals_of({key: text}) is None


def test_goals_are_off_by_default() -> None:
    assert goals_of({}) is None
    assert read_premium("true") == 0.05
    assert goals_of({labels.ZONE_BALANCE: "false"}) is None
    value = problem(replicas(9), pool())
    plan = planned(value)
    assert all(not claim.goals for claim in plan.claims)


# --- the share of spot capacity ---


@pytest.mark.parametrize(("share", "spot"), [(0.0, 0), (0.3, 3), (0.7, 7), (1.0, 10)])
def test_wsh13_new_nodes_have_the_share(share: float, spot: int) -> None:
    value = problem(replicas(10, "1500m"), pool(types=ONLY_LARGE, goals=Goals(spot_share=share)))
    plan = planned(value)
    assert capacity_types(plan.claims)[labels.SPOT] == spot
    assert len(plan.claims) == 10
    for claim in plan.claims:
        allowed = claim.requirements.get(labels.CAPACITY_TYPE)
        if claim.offering.capacity_type == labels.ON_DEMAND:
            assert not allowed.has(labels.SPOT), "a launch would buy spot capacity"
            assert claim.price == 0.1
        else:
            assert allowed.has(labels.ON_DEMAND), "it falls back to on-demand"


def test_wsh13_nodes_that_exist_count_by_their_vcpus() -> None:
    goals = Goals(spot_share=0.5)
    nodes = [own_node("a", "8"), own_node("b", "2", capacity_type=labels.ON_DEMAND)]
    foreign = replace(own_node("c", "100"), labels={labels.NODEPOOL: "other", labels.CAPACITY_TYPE: labels.SPOT})
    value = problem(replicas(5, "1500m"), pool(types=ONLY_LARGE, goals=goals), nodes=[*nodes, foreign])
    claims = planned(value).claims
    assert capacity_types(claims) == {labels.ON_DEMAND: 4, labels.SPOT: 1}, "10 of 20 vCPUs are spot then"


def test_wsh13_the_explanation_says_what_the_share_costs() -> None:
    value = problem(replicas(2, "1500m"), pool(types=ONLY_LARGE, goals=Goals(spot_share=0.5)))
    claims = planned(value).claims
    (on_demand,) = [claim for claim in claims if claim.goals]
    assert "tenon.sh/spot-share 50%: on-demand, which costs $0.0600 an hour more" in explained(value, on_demand)


def test_wsh13_no_pod_waits_for_the_share() -> None:
    """Neither for spot capacity that is not there, nor because it asks for one capacity type."""
    without_spot = entry("m5.large", 2, 8, 0.1)
    for offering in without_spot["offerings"]:
        offering["available"] = offering["capacityType"] != labels.SPOT
    value = problem(replicas(4, "1500m"), pool(types=catalog(without_spot), goals=Goals(spot_share=1.0)))
    assert capacity_types(planned(value).claims) == {labels.ON_DEMAND: 4}
    picky = [asking(f"p{n}", ON_DEMAND, cpu="1500m") for n in range(4)]
    value = problem([*picky, *replicas(4, "1500m", prefix="q")], pool(types=ONLY_LARGE, goals=Goals(spot_share=0.5)))
    plan = planned(value)
    assert capacity_types(plan.claims) == {labels.ON_DEMAND: 4, labels.SPOT: 4}
    assert not plan.unschedulable


# --- zones ---


def test_wsh30_nodes_go_to_the_zone_with_the_fewest_vcpus() -> None:
    nodes = [own_node("a", "8"), own_node("b", "2", ZONES[1])]
    value = problem(replicas(5, "1500m"), pool(types=ONLY_LARGE, goals=Goals(zone_balance=0.0)), nodes=nodes)
    claims = planned(value).claims
    zones = Counter(claim.offering.zone for claim in claims)
    assert zones == {ZONES[1]: 2, ZONES[2]: 3}
    for claim in claims:
        assert claim.requirements[labels.ZONE].values == (claim.offering.zone,)
        assert "at the same price" in explained(value, claim)
        assert f"the NodePool has the fewest vCPUs in {claim.offering.zone}" in explained(value, claim)


@pytest.mark.parametrize(("premium", "zones"), [(0.03, 1), (0.05, 2)])
def test_wsh30_a_zone_that_is_too_dear_is_left_out(premium: float, zones: int) -> None:
    dearer = entry("m5.large", 2, 8, 0.1, zones=ZONES[:2])
    for offering in dearer["offerings"]:
        offering["price"] *= 1.04 if offering["zone"] == ZONES[1] else 1.0
    pools = pool("default", ON_DEMAND, types=catalog(dearer), goals=Goals(zone_balance=premium))
    claims = planned(problem(replicas(4, "1500m"), pools)).claims
    assert len({claim.offering.zone for claim in claims}) == zones
    assert sum(claim.price for claim in claims) == pytest.approx(0.4 if zones == 1 else 0.408)


def test_wsh30_pods_that_need_a_zone_get_it() -> None:
    picky = [asking(f"p{n}", need(labels.ZONE, "In", ZONES[0]), cpu="1500m") for n in range(3)]
    value = problem(
        [*picky, *replicas(2, "1500m", prefix="q")], pool("default", types=ONLY_LARGE, goals=Goals(zone_balance=0.1))
    )
    zones = Counter(claim.offering.zone for claim in planned(value).claims)
    assert zones == {ZONES[0]: 3, ZONES[1]: 1, ZONES[2]: 1}


# --- Spot placement scores ---


def scored_types(*dearer: float, count: int = 3) -> list[InstanceType]:
    """Types with an equal price in the first zone, and so much dearer in each zone after it."""
    entries = [entry(f"m{number}.large", 2, 8, 0.1, zones=ZONES[: len(dearer) + 1]) for number in range(5, 5 + count)]
    for offering in (offering for kind in entries for offering in kind["offerings"]):
        place = ZONES.index(offering["zone"])
        offering["zoneId"] = IDS[place]
        offering["price"] *= 1 + (0.0, *dearer)[place]
    return catalog(*entries)


def scored_pool(types: list[InstanceType], *scores: int, premium: float = 0.05, **goals: float) -> Pool:
    own = pool(types=types, goals=Goals(placement_scores=premium, **goals))
    return replace(own, spot_scores=dict(zip(IDS, scores, strict=False)))


def test_wsh39_a_spot_node_goes_to_the_zone_with_the_highest_score_that_is_not_too_dear() -> None:
    own = scored_pool(scored_types(0.04, 0.2), 3, 8, 9)
    (claim,) = planned(problem(replicas(1, "1500m"), own)).claims
    assert claim.requirements[labels.ZONE].values == ZONES[1:], "EC2 may choose the dear zone, whose score is higher"
    assert claim.offering.zone == ZONES[1]
    assert claim.price == pytest.approx(0.0416)
    sentence = f"tenon.sh/spot-placement-scores: a score of at least 8 in {ZONES[1]}, {ZONES[2]}"
    assert f"{sentence}, which costs $0.0016 an hour more" in explained(problem(replicas(1), own), claim)


@pytest.mark.parametrize(
    ("scores", "premium"),
    [((7, 7, 7), 0.05), ((), 0.05), ((3, 9, 9), 0.01), ((9, 9), 0.0)],
    ids=["equal", "unknown", "too dear", "unscored zone of two"],
)
def test_wsh39_scores_that_leave_out_no_zone_change_nothing(scores: tuple[int, ...], premium: float) -> None:
    types = scored_types(0.04) if len(scores) == 2 else scored_types(0.04, 0.04)
    usual = planned(problem(replicas(3, "1500m"), pool(types=types)))
    assert planned(problem(replicas(3, "1500m"), scored_pool(types, *scores, premium=premium))).claims == usual.claims


def test_wsh39_a_zone_that_aws_did_not_score_is_left_out() -> None:
    (claim,) = planned(problem(replicas(1, "1500m"), scored_pool(scored_types(0.0, 0.0), 1, 2))).claims
    assert claim.requirements[labels.ZONE].values == (ZONES[1],)


def test_wsh39_scores_do_not_concern_on_demand_nodes() -> None:
    pods = [asking(f"p{number}", ON_DEMAND, cpu="1500m") for number in range(2)]
    types = scored_types(0.0, 0.0)
    usual = planned(problem(pods, pool(types=types)))
    assert planned(problem(pods, scored_pool(types, 1, 9, 9))).claims == usual.claims


def test_wsh39_zones_with_equal_scores_are_balanced() -> None:
    own = scored_pool(scored_types(0.0, 0.0), 3, 9, 9, zone_balance=0.05)
    claims = planned(problem(replicas(4, "1500m"), own)).claims
    assert Counter(claim.offering.zone for claim in claims) == {ZONES[1]: 2, ZONES[2]: 2}
    assert all(len(claim.goals) == 2 for claim in claims)


def test_wsh39_a_person_reads_the_scores_or_why_there_are_none() -> None:
    name = "tenon.sh/spot-placement-scores, up to 5% dearer"
    types = scored_types(0.0, 0.0)
    assert goal_sentences(scored_pool(types, 3, 9), []) == [f"{name}: us-west-2a 3, us-west-2b 9"]
    assert goal_sentences(scored_pool(types), []) == [f"{name}: no scores are known"]
    assert goal_sentences(scored_pool(scored_types(0.0, count=2)), []) == [
        f"{name}: AWS needs 3 instance types to score zones, and spot capacity of 2 is allowed"
    ]


@pytest.mark.parametrize(("cpu", "vcpus"), [(0, 32), (32_000, 32), (33_000, 64), (64_000, 64), (500_000, 512)])
def test_wsh39_few_configurations_are_scored_while_a_nodepool_grows(cpu: int, vcpus: int) -> None:
    """AWS limits new configurations."""
    own = replace(scored_pool(scored_types(0.0)), usage={"cpu": cpu})
    assert configuration_of(own) == Configuration(("m5.large", "m6.large", "m7.large"), vcpus)


def test_wsh39_what_aws_cannot_score_or_nobody_asks_for_is_not_scored() -> None:
    types = scored_types(0.0)
    assert configuration_of(pool(types=types)) is None
    assert configuration_of(scored_pool(scored_types(0.0, count=2))) is None
    only = pool("default", ON_DEMAND, types=types, goals=Goals(placement_scores=0.05))
    assert configuration_of(only) is None


# --- generations ---


def test_wsh37_the_newest_generation_that_is_not_too_dear_is_bought() -> None:
    types = generations(5, 6, 7)
    for premium, expected in ((0.0, 5), (0.03, 6), (0.1, 7)):
        value = problem(replicas(1), pool("default", ON_DEMAND, types=types, goals=Goals(newer_generations=premium)))
        (claim,) = planned(value).claims
        assert claim.offering.instance_type == f"m{expected}.large"
        assert all(int(name[1]) >= expected for name in claim.instance_types), "EC2 would choose a cheaper one"
        if expected == 7:
            assert "tenon.sh/newer-generations: no type older than generation 7, which costs $0.0040 an hour more" in (
                explained(value, claim)
            )


def test_wsh37_a_spot_node_keeps_fifteen_types() -> None:
    families = "abcdefghij"
    types = catalog(
        *(
            entry(f"{family}{generation}.large", 2, 8, 0.1, requirements={GENERATION: [str(generation)]})
            for family in families
            for generation in (5, 6, 7)
        )
    )
    (claim,) = planned(problem(replicas(1), pool(types=types, goals=Goals(newer_generations=0.05)))).claims
    assert claim.offering.capacity_type == labels.SPOT
    assert sorted({name[1] for name in claim.instance_types}) == ["6", "7"], "10 types of generation 7 are too few"


def test_claims_that_must_keep_their_variety_stay_as_they_are() -> None:
    various = need(labels.INSTANCE_TYPE, "Exists", least=2)
    goals = Goals(0.0, 1.0, 1.0)
    value = problem(replicas(3), pool("default", various, goals=goals))
    usual = planned(problem(replicas(3), pool("default", various)))
    assert planned(value).claims == usual.claims


def test_a_person_reads_how_far_goals_are_met() -> None:
    nodes = [own_node("a", "8"), own_node("b", "2", ZONES[1], labels.ON_DEMAND), node("foreign", "64")]
    goals = Goals(0.7, 0.05, 0.1)
    assert goal_sentences(pool(goals=goals), nodes) == [
        "tenon.sh/spot-share 70%: 80% of 10 vCPUs are on spot capacity",
        "tenon.sh/zone-balance, up to 5% dearer: us-west-2a 8 vCPUs, us-west-2b 2 vCPUs",
        "tenon.sh/newer-generations, up to 10% dearer",
    ]
    assert goal_sentences(pool(goals=Goals(spot_share=0.5)), []) == ["tenon.sh/spot-share 50%: it has no nodes"]
    assert goal_sentences(pool(), nodes) == []


# --- always ---


@settings(max_examples=100, deadline=None)
@given(
    cpus=st.lists(st.sampled_from([500, 1500, 3000, 7000]), min_size=1, max_size=25),
    share=st.one_of(st.none(), st.floats(0, 1)),
    balance=st.one_of(st.none(), st.floats(0, 0.5)),
    newer=st.one_of(st.none(), st.floats(0, 0.5)),
    scored=st.one_of(st.none(), st.floats(0, 0.5)),
    scores=st.lists(st.integers(1, 10), max_size=3),
    zone=st.sampled_from(["", *ZONES]),
)
def test_goals_keep_every_place_and_their_price(
    cpus: list[int],
    share: float | None,
    balance: float | None,
    newer: float | None,
    scored: float | None,
    scores: list[int],
    zone: str,
) -> None:
    needs = [AMD64, *([need(labels.ZONE, "In", zone)] if zone else [])]
    pods = [asking(f"p{number}", *needs, cpu=f"{cpu}m") for number, cpu in enumerate(cpus)]
    usual = planned(problem(pods, pool(types=WITH_IDS)))
    goals = Goals(share, balance, newer, scored)
    own = replace(pool(types=WITH_IDS), spot_scores=dict(zip(IDS, scores, strict=False)))
    plan = planned(problem(pods, replace(own, goals=None if goals == Goals() else goals)))
    assert [claim.pods for claim in plan.claims] == [claim.pods for claim in usual.claims]
    assert plan.placements == usual.placements
    assert plan.unschedulable == usual.unschedulable
    for claim, before in zip(plan.claims, usual.claims, strict=True):
        assert set(claim.instance_types) <= set(before.instance_types)
        assert claim.instance_types
        bought = claim.offering
        assert any(
            (o.zone, o.capacity_type, o.price) == (bought.zone, bought.capacity_type, claim.price)
            for o in TYPES[bought.instance_type].offerings
        )
        for key, value in ((labels.ZONE, bought.zone), (labels.CAPACITY_TYPE, bought.capacity_type)):
            assert claim.requirements.get(key).has(value)
            assert before.requirements.get(key).has(value)
        if claim == before:
            continue
        assert claim.goals
        base = before.price
        if bought.capacity_type != before.offering.capacity_type:
            assert share is not None
            base = min(
                o.price
                for name in before.instance_types
                for o in TYPES[name].offerings
                if o.capacity_type == bought.capacity_type
            )
        assert claim.price <= base * (1 + (balance or 0)) * (1 + (newer or 0)) * (1 + (scored or 0)) + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 40),
    share=st.floats(0, 1),
    spot=st.integers(0, 20),
    other=st.integers(0, 20),
)
def test_the_share_is_met_as_nearly_as_the_nodes_allow(count: int, share: float, spot: int, other: int) -> None:
    nodes = [own_node(f"s{n}", "2") for n in range(spot)]
    nodes += [own_node(f"o{n}", "2", capacity_type=labels.ON_DEMAND) for n in range(other)]
    value = problem(replicas(count, "1500m"), pool(types=ONLY_LARGE, goals=Goals(spot_share=share)), nodes=nodes)
    bought = capacity_types(planned(value).claims)[labels.SPOT]
    best = min(range(count + 1), key=lambda number: abs(spot + number - share * (spot + other + count)))
    assert abs(bought - best) <= 1
