"""Why the type of a planned node won: a sentence that is true of the plan and names what stands in the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.ec2.types.instance_types import without
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.selectors import LabelSelector
from tenon.scheduling.engine import solve
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer, UsualNodes
from tenon.scheduling.model import Problem
from tests.tenon.scheduling.builders import (
    AMD64,
    CATALOG,
    ON_DEMAND,
    asking,
    catalog,
    entry,
    need,
    pod,
    pool,
    problem,
    replicas,
)


def why(problem: Problem) -> str:
    """The sentence on the only claim of the plan."""
    (claim,) = solve(problem).claims
    return TypeChoiceExplainer(problem).why(claim)


SMALL = catalog(
    entry("c5.2xlarge", 8, 16, 0.34, zones=["us-west-2a"]),
    entry("m5.2xlarge", 8, 32, 0.384, zones=["us-west-2a"]),
    entry("m5a.2xlarge", 8, 32, 0.4, zones=["us-west-2a"]),
)


def test_the_winner_the_next_and_the_cheaper_one_that_is_too_small() -> None:
    requests = problem([pod("p", "7500m", "16.2Gi")], pool("default", ON_DEMAND, types=SMALL))
    assert why(requests) == (
        "m5.2xlarge in us-west-2a (on-demand): the cheapest of 2 types that hold 7.5 CPU and 16.2Gi; "
        "next is m5a.2xlarge, 4 % more expensive; c5.2xlarge is cheaper but has 15.5Gi, 16.2Gi are needed"
    )


def test_the_only_type_and_what_daemonsets_need_of_it() -> None:
    agent = pod("agent", "500m", "1Gi")
    requests = problem([pod("p", "7", "15Gi")], pool("default", ON_DEMAND, types=SMALL[:2]), daemons=[agent])
    assert "the only type that holds 7.5 CPU and 16Gi; c5.2xlarge is cheaper but has 15.5Gi, 16Gi" in why(requests)


def test_amounts_that_differ_by_little_are_shown_with_more_digits() -> None:
    requests = problem([pod("p", "1", "15885Mi")], pool("default", ON_DEMAND, types=SMALL))
    assert "c5.2xlarge is cheaper but has 15.512Gi, 15.513Gi are needed" in why(requests)


@pytest.mark.parametrize(
    ("memory", "amount"), [("500m", "1 byte of memory"), ("512", "512 bytes of memory"), ("1Ki", "1Ki")]
)
def test_amounts_below_the_binary_units_are_bytes(memory: str, amount: str) -> None:
    sentence = why(problem([pod("p", "1", memory)], pool("default", ON_DEMAND)))
    assert f"types that hold 1 CPU and {amount};" in sentence


def test_a_cheaper_offering_that_the_pods_rule_out_is_named_with_their_wish() -> None:
    requests = problem([asking("p", AMD64, ON_DEMAND)], pool("default"))
    sentence = why(requests)
    assert sentence.startswith("c5.large in us-west-2a (on-demand): the cheapest of 21 types that hold 1 CPU and 1Gi")
    assert sentence.endswith(
        "c6g.large in us-west-2a (spot) would cost 68 % less, but its pods need kubernetes.io/arch In [amd64]"
    )


def test_what_the_pool_itself_rules_out_is_not_put_on_the_pods() -> None:
    assert "its pods need" not in why(problem([pod("p")], pool("default", ON_DEMAND, AMD64)))


def test_a_cheaper_type_that_is_unavailable_is_named() -> None:
    instance_types = catalog(
        entry("m5.large", 2, 8, 0.096, zones=["us-west-2a"], available=False),
        entry("m5a.large", 2, 8, 0.12, zones=["us-west-2a"]),
    )
    sentence = why(problem([pod("p")], pool("default", ON_DEMAND, types=instance_types)))
    assert sentence.endswith("m5.large in us-west-2a (on-demand) would cost 20 % less, but it is unavailable")


def refused(*names: str) -> Callable[[OfferingKey], datetime | None]:
    """EC2 refused these types, on demand."""
    keys = {OfferingKey("on-demand", name, "us-west-2a"): UNTIL for name in names}
    return keys.get


UNTIL = datetime(2026, 3, 1, 9, 59, 10, tzinfo=UTC)
GONE = catalog(
    entry("c6g.2xlarge", 8, 16, 0.272, zones=["us-west-2a"], available=False),
    entry("m6g.2xlarge", 8, 32, 0.308, zones=["us-west-2a"], available=False),
    entry("m6g.large", 2, 8, 0.077, zones=["us-west-2a"], available=False),
    entry("x8g.48xlarge", 192, 3072, 18.0, zones=["us-west-2a"], available=False),
)
LEFT = catalog(
    entry("m9gd.16xlarge", 64, 256, 4.0224, zones=["us-west-2a"]),
    entry("r9gd.16xlarge", 64, 512, 5.0, zones=["us-west-2a"]),
)


def test_a_type_that_is_bought_in_a_shortage_is_not_called_the_cheapest_that_fits() -> None:
    """The problem lacks types of which nothing is available, and the sentence names those that would do."""
    requests = problem([pod("p", "5", "5Gi")], pool("default", ON_DEMAND, types=LEFT))
    (claim,) = solve(requests).claims
    names = refused("c6g.2xlarge", "m6g.2xlarge", "m6g.large", "x8g.48xlarge")
    explainer = TypeChoiceExplainer(requests, {"default": [*GONE, *LEFT]}, names)
    assert explainer.why(claim) == (
        "m9gd.16xlarge in us-west-2a (on-demand): the cheapest of 2 types that hold 5 CPU and 5Gi and that EC2 did not "
        "refuse; EC2 refused 2 cheaper types, c6g.2xlarge at $0.2720 an hour first; next is "
        "r9gd.16xlarge, 24 % more expensive"
    )
    assert explainer.usual_price(claim) == 0.272


MANY = catalog(
    entry("c6g.large", 2, 4, 0.068, zones=["us-west-2a"], available=False),
    entry("c6g.xlarge", 4, 8, 0.136, zones=["us-west-2a"], available=False),
    entry("c6g.12xlarge", 48, 96, 1.632, zones=["us-west-2a"], available=False),
)


def test_the_usual_price_of_many_pods_is_that_of_several_small_nodes() -> None:
    """No small type holds all pods, and the only refused type that does is not the cheapest way."""
    requests = problem(replicas(6), pool("default", ON_DEMAND, types=LEFT))
    (claim,) = solve(requests).claims
    explainer = TypeChoiceExplainer(requests, {"default": [*MANY, *LEFT]}, refused(*(kind.name for kind in MANY)))
    assert explainer.usual(claim) == UsualNodes("c6g.xlarge", 2, 0.272, UNTIL)
    assert "EC2 refused 1 cheaper type, c6g.12xlarge at $1.6320 an hour" in explainer.why(claim)


def test_small_nodes_that_each_need_daemonsets_are_no_cheaper_way() -> None:
    agent = pod("agent", "3", "1Gi")
    requests = problem(replicas(6), pool("default", ON_DEMAND, types=LEFT), daemons=[agent])
    (claim,) = solve(requests).claims
    explainer = TypeChoiceExplainer(requests, {"default": [*MANY, *LEFT]}, refused(*(kind.name for kind in MANY)))
    assert explainer.usual(claim) == UsualNodes("c6g.12xlarge", 1, 1.632, UNTIL)


def test_pods_that_must_run_together_are_not_divided_among_small_nodes() -> None:
    together = PodRules(affinity=(PodTerm(labels.HOSTNAME, LabelSelector()),))
    requests = problem(replicas(6, rules=together), pool("default", ON_DEMAND, types=LEFT))
    (claim,) = solve(requests).claims
    explainer = TypeChoiceExplainer(requests, {"default": [*MANY, *LEFT]}, refused(*(kind.name for kind in MANY)))
    assert explainer.usual(claim) == UsualNodes("c6g.12xlarge", 1, 1.632, UNTIL)


def test_refused_types_that_the_pods_could_not_use_are_not_named() -> None:
    requests = problem([asking("p", AMD64, ON_DEMAND)], pool("default", ON_DEMAND, types=LEFT_AMD64))
    (claim,) = solve(requests).claims
    arm = catalog(entry("c6g.2xlarge", 8, 16, 0.01, zones=["us-west-2a"], available=False, arch="arm64"))
    explainer = TypeChoiceExplainer(requests, {"default": [*arm, *LEFT_AMD64]}, refused("c6g.2xlarge"))
    assert "EC2 refused" not in explainer.why(claim)
    assert explainer.usual_price(claim) is None


def test_the_usual_price_of_on_demand_capacity_is_not_that_of_spot_capacity() -> None:
    """A pool that falls back from spot has bought at the usual price of what it falls back to."""
    kinds = catalog(entry("m5.large", 2, 8, 0.096, zones=["us-west-2a"]))
    spot_gone = without(kinds, {OfferingKey("spot", "m5.large", "us-west-2a")})
    requests = problem([pod("p")], pool("default", types=spot_gone))
    (claim,) = solve(requests).claims
    explainer = TypeChoiceExplainer(requests, {"default": spot_gone}, lambda key: UNTIL if key[0] == "spot" else None)
    assert "EC2 refused 1 cheaper type, m5.large at $0.0384 an hour" in explainer.why(claim)
    assert explainer.usual_price(claim) is None


LEFT_AMD64 = catalog(entry("m5.large", 2, 8, 0.096, zones=["us-west-2a"]))


def test_what_costs_nothing_is_compared_in_dollars() -> None:
    free = catalog(
        entry("m5.large", 2, 8, 0.0, zones=["us-west-2a"]), entry("m5a.large", 2, 8, 0.12, zones=["us-west-2a"])
    )
    assert "next is m5a.large, at $0.1200 an hour" in why(problem([pod("p")], pool("default", ON_DEMAND, types=free)))


def test_a_place_in_a_reservation_is_paid_for_already() -> None:
    own = entry("m5.large", 2, 8, 0.096, zones=["us-west-2a"])
    place = {"zone": "us-west-2a", "capacityType": "reserved", "price": 0.00001}
    own["offerings"].append({**place, "reservationId": "cr-1", "reservationCapacity": 1})
    sentence = why(problem([pod("p")], pool("default", types=catalog(own))))
    assert sentence.startswith("m5.large in us-west-2a (reserved): reservation cr-1 is paid for already; the only type")


def test_extended_resources_are_part_of_what_is_held() -> None:
    gpu = catalog(entry("g5.xlarge", 4, 16, 1.0, capacity={"nvidia.com/gpu": "1"}), entry("m5.large", 2, 8, 0.096))
    sentence = why(problem([pod("p", extra={"nvidia.com/gpu": "1"})], pool("default", ON_DEMAND, types=gpu)))
    assert "holds 1 CPU, 1Gi and 1 nvidia.com/gpu" in sentence
    assert "m5.large" not in sentence  # that it has no GPU is no news


def test_fewer_devices_than_are_needed() -> None:
    gpu = catalog(
        entry("g5.xlarge", 4, 16, 1.0, capacity={"nvidia.com/gpu": "1"}),
        entry("g5.12xlarge", 48, 192, 5.0, capacity={"nvidia.com/gpu": "4"}),
    )
    sentence = why(problem([pod("p", extra={"nvidia.com/gpu": "2"})], pool("default", ON_DEMAND, types=gpu)))
    assert "g5.xlarge is cheaper but has 1 nvidia.com/gpu, 2 nvidia.com/gpu are needed" in sentence


def test_labels_of_the_pool_rule_out_no_type() -> None:
    own = pool("default", ON_DEMAND, need("team", "Exists"))
    assert "the cheapest of 28 types" in why(problem([pod("p")], own))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 200)), min_size=1, max_size=12),
    st.sampled_from([(), (ON_DEMAND,), (AMD64,), (need(labels.ZONE, "In", "us-west-2b"),)]),
)
def test_every_claim_of_every_plan_has_a_true_sentence(
    sizes: list[tuple[int, int]], requests: tuple[object, ...]
) -> None:
    """No type that is called too small holds the pods, and the figures are those of the claim."""
    pods = [pod(f"p-{n}", f"{cpu}", f"{gib}Gi") for n, (cpu, gib) in enumerate(sizes)]
    batch = problem([*pods, *replicas(3, prefix="r")], pool("default", *requests))  # type: ignore[arg-type]
    winners, kinds = TypeChoiceExplainer(batch), {kind.name: kind for kind in CATALOG}
    for claim in solve(batch).claims:
        head, *clauses = winners.why(claim).split("; ")
        capacity_type, instance_type, zone = claim.offering[:3]
        assert head.startswith(f"{instance_type} in {zone} ({capacity_type}): ")
        for clause in clauses:
            if " is cheaper but has " in clause:
                smaller = kinds[clause.partition(" ")[0]]
                assert any(units > smaller.allocatable.get(name, 0) for name, units in claim.requests.items())
                assert min(o.price for o in smaller.offerings) < claim.price
            if clause.startswith("next is "):
                assert clause.removeprefix("next is ").partition(",")[0] == claim.instance_types[1]
