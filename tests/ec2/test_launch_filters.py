"""Which types and offerings a launch may use."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.ec2.launch.filters import MAX_TYPES, NoOfferingError, TypeOfferings, choose, few_types, named_types
from tenon.ec2.types.instance_types import without
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirement, Requirements
from tenon.provisioning.pools import instance_type_requirement
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, PlannedClaim
from tests.ec2.samples import ZONES, instance_type
from tests.tenon.scheduling import builders
from tests.tenon.scheduling.builders import catalog, entry, need, pod, pool, problem

CAPACITY_TYPE = "karpenter.sh/capacity-type"
TYPE = "node.kubernetes.io/instance-type"
FAMILY, SIZE, CPU = (f"karpenter.k8s.aws/instance-{name}" for name in ("family", "size", "cpu"))
ANY = {"us-west-2a": 0.3, "us-west-2b": 0.4}


def terms(*listed: tuple[Any, ...]) -> Requirements:
    return Requirements.from_terms(
        {"key": key, "operator": operator, "values": values, "minValues": least[0] if least else None}
        for key, operator, values, *least in listed
    )


def chosen(
    requirements: Requirements, *types: InstanceType, requests: dict[str, int] | None = None, zones: Any = ZONES
) -> tuple[str, dict[str, list[str]]]:
    capacity_type, choices = choose(requirements, requests or {"cpu": 500}, types, zones)
    return capacity_type, {choice.type.name: [offering.zone for offering in choice.offerings] for choice in choices}


def test_spot_is_preferred_and_on_demand_is_the_fallback() -> None:
    """AWS-002."""
    m5 = instance_type("m5.large", 1.0, spot=ANY)
    assert chosen(terms(), m5)[0] == "spot"
    assert chosen(terms((CAPACITY_TYPE, "In", ["on-demand"])), m5)[0] == "on-demand"
    refused = without([m5], {OfferingKey("spot", "m5.large", zone) for zone in ZONES})
    assert chosen(terms(), *refused) == ("on-demand", {"m5.large": sorted(ZONES)})


@pytest.mark.parametrize(
    ("allowed", "capacity_type", "types", "warns"),
    [
        (["spot", "on-demand"], "on-demand", 4, True),
        (["spot", "on-demand"], "on-demand", 5, False),
        (["spot", "on-demand"], "spot", 1, False),
        (["on-demand"], "on-demand", 1, False),
    ],
)
def test_aws012_a_spot_claim_on_demand_of_few_types_is_warned_of(
    allowed: list[str], capacity_type: str, types: int, warns: bool
) -> None:
    requirements = terms((CAPACITY_TYPE, "In", allowed))
    assert bool(few_types(requirements, capacity_type, [f"t{number}" for number in range(types)])) is warns


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ((TYPE, "In", ["m5.large", "c5.large"]), ["m5.large"]),
        ((TYPE, "NotIn", ["m5.large"]), ["r5.large"]),
        ((CAPACITY_TYPE, "In", ["spot"]), ["m5.large", "r5.large"]),
    ],
)
def test_types_that_the_claim_does_not_name_are_left_out_first(term: tuple[Any, ...], names: list[str]) -> None:
    """The launch is the same without this filter, because `choose` asks each type for its name too."""
    types = [instance_type("m5.large", 1.0, spot=ANY), instance_type("r5.large", 2.0, spot=ANY)]
    requirements = terms(term)
    assert [instance_type.name for instance_type in named_types(requirements, types)] == names
    assert chosen(requirements, *types) == chosen(requirements, *named_types(requirements, types))


def test_only_compatible_types_that_fit_are_left() -> None:
    """AWS-020: labels, requests, zones, zone ids."""
    m5, arm = instance_type("m5.large", 1.0), instance_type("t4g.small", 0.5)
    assert chosen(terms(("kubernetes.io/arch", "In", ["arm64"])), m5, arm)[1].keys() == {"t4g.small"}
    assert chosen(terms(), m5, arm, requests={"memory": 4 * 2**30})[1].keys() == {"m5.large"}
    assert chosen(terms(("topology.kubernetes.io/zone", "In", ["us-west-2b"])), m5)[1] == {"m5.large": ["us-west-2b"]}
    assert chosen(terms(("topology.k8s.aws/zone-id", "NotIn", ["usw2-az1"])), m5)[1] == {"m5.large": ["us-west-2a"]}


def test_a_label_that_no_type_knows_restricts_nothing() -> None:
    """AWS-020: custom labels come from the NodePool, not from EC2."""
    assert chosen(terms(("example.com/team", "In", ["blue"])), instance_type("m5.large"))[1]


def test_zones_without_addresses_are_left_out() -> None:
    """AWS-043."""
    assert chosen(terms(), instance_type("m5.large"), zones=["us-west-2b"])[1] == {"m5.large": ["us-west-2b"]}
    with pytest.raises(NoOfferingError):
        chosen(terms(), instance_type("m5.large"), zones=[])


def test_nothing_left_is_no_capacity() -> None:
    """AWS-027."""
    with pytest.raises(NoOfferingError, match="no instance type"):
        chosen(terms((TYPE, "In", ["c5.18xlarge"])), instance_type("m5.large"))


@pytest.mark.parametrize("exotic", ["m5.metal", "g4dn.xlarge", "inf1.xlarge", "trn1.32xlarge"])
def test_exotic_types_only_when_there_is_nothing_else(exotic: str) -> None:
    """AWS-024: even where the exotic one is cheaper."""
    plain, odd = instance_type("m5.large", 1.0), instance_type(exotic, 0.1)
    assert chosen(terms(), plain, odd)[1].keys() == {"m5.large"}
    assert chosen(terms(), odd)[1].keys() == {exotic}


def test_min_values_keep_exotic_types_and_expensive_spot() -> None:
    """AWS-024, AWS-025: with minValues both filters stand aside."""
    plain, metal = instance_type("m5.large", 1.0, spot={"us-west-2a": 2.0}), instance_type("m5.metal", 0.1, spot=ANY)
    capacity_type, result = chosen(terms((TYPE, "Exists", [], 2)), plain, metal)
    assert capacity_type == "spot"
    assert result.keys() == {"m5.large", "m5.metal"}


def test_spot_costlier_than_on_demand_is_dropped() -> None:
    """AWS-025: in mixed claims only."""
    cheap = instance_type("m5.large", 0.35, spot=ANY)
    dear = instance_type("c5.18xlarge", 3.0, spot={"us-west-2a": 1.0})
    assert chosen(terms(), cheap, dear) == ("spot", {"m5.large": ["us-west-2a"]})
    only_spot = terms((CAPACITY_TYPE, "In", ["spot"]))
    assert chosen(only_spot, cheap, dear)[1] == {"m5.large": sorted(ZONES), "c5.18xlarge": ["us-west-2a"]}


def test_on_demand_when_all_spot_costs_more() -> None:
    """AWS-025."""
    assert chosen(terms(), instance_type("m5.large", 0.1, spot=ANY))[0] == "on-demand"


def many(count: int) -> list[InstanceType]:
    """Types that differ in name and price only, the dearest first."""
    model = instance_type("m5.large")
    return [
        dataclasses.replace(
            model,
            name=f"m5.{number:03}",
            requirements=Requirements.from_labels({**model.requirements.labels(), TYPE: f"m5.{number:03}"}),
            offerings=tuple(dataclasses.replace(offering, price=float(number)) for offering in model.offerings),
        )
        for number in range(count, 0, -1)
    ]


def test_the_cheapest_sixty_types_are_kept_in_order() -> None:
    """AWS-026."""
    names = list(chosen(terms(), *many(80))[1])
    assert names == [f"m5.{number:03}" for number in range(1, 61)]


def test_too_few_values_are_no_capacity() -> None:
    """AWS-026: the sentence says which label and how many."""
    with pytest.raises(NoOfferingError, match="asks for 3 values, but the types that can be bought have 2"):
        chosen(terms((TYPE, "Exists", [], 3)), *many(2))
    assert len(chosen(terms((TYPE, "Exists", [], 2)), *many(2))[1]) == 2


def test_equal_prices_are_ordered_by_name() -> None:
    assert list(chosen(terms(), instance_type("t2.micro"), instance_type("m5.large"))[1]) == ["m5.large", "t2.micro"]


def sizes(*cpus: int) -> list[InstanceType]:
    """Seventy families, each in these sizes, of which the smallest of every family are the cheapest types."""
    return catalog(
        *(entry(f"m{n}.size{cpu}", cpu, 4 * cpu, 0.05 * cpu + n / 10_000) for n in range(70) for cpu in cpus)
    )


def without_spot(types: list[InstanceType], *families: str) -> list[InstanceType]:
    """The types in a spot shortage: of spot, EC2 has only these families left."""
    return without(
        types,
        {
            OfferingKey("spot", kind.name, zone)
            for kind in types
            if kind.name.partition(".")[0] not in families
            for zone in builders.ZONES
        },
    )


def planned(types: list[InstanceType], *requirements: Requirement, best_effort: bool = False) -> list[PlannedClaim]:
    own_pool = pool("default", *requirements, types=types)
    return list(solve(problem([pod()], own_pool, min_values_best_effort=best_effort)).claims)


def launched(claim: PlannedClaim, types: list[InstanceType]) -> tuple[str, list[TypeOfferings]]:
    """Choose for the NodeClaim as it is written."""
    written = claim.requirements.with_(instance_type_requirement(claim.instance_types)).to_selectors()
    return choose(Requirements.from_terms(written), claim.requests, types, builders.ZONES)


def values(choices: list[TypeOfferings], key: str) -> set[str]:
    return {value for choice in choices for value in choice.type.requirements.get(key).values}


@pytest.mark.parametrize("best_effort", [False, True])
@pytest.mark.parametrize(("key", "least"), [(SIZE, 3), (CPU, 3), (FAMILY, 50)])
def test_aws026_dear_types_with_values_that_min_values_ask_for_replace_cheap_ones(
    key: str, least: int, best_effort: bool
) -> None:
    """Otherwise the claim would be deleted and planned in the same way again and again."""
    types = sizes(2, 4, 8)
    (claim,) = planned(types, need(key, "Exists", least=least), best_effort=best_effort)
    _, choices = launched(claim, types)
    assert len(choices) == MAX_TYPES
    assert len(values(choices, key)) >= least
    prices = [choice.price for choice in choices]
    assert prices == sorted(prices)
    assert prices[0] == claim.price, "the cheapest type stays"
    assert {choice.type.name for choice in choices} >= set(claim.instance_types[:57])


def test_aws026_min_values_of_several_labels_share_the_types() -> None:
    """The sixty cheapest have one family, and the types that add families also count as types."""
    many = [entry(f"m5.size{n:03}", 2, 8, 0.1 + n / 10_000) for n in range(70)]
    dear = [entry(f"x{n}.large", 2, 8, 9.0 + n) for n in range(40)]
    types = catalog(*many, *dear)
    (claim,) = planned(types, need(FAMILY, "Exists", least=35), need(TYPE, "Exists", least=50))
    _, choices = launched(claim, types)
    assert (len(choices), len(values(choices, FAMILY))) == (60, 35)


def test_aws026_min_values_count_types_of_each_capacity_type() -> None:
    """EC2 has spot capacity of one family only: as in Karpenter, it is bought as long as others are on demand."""
    types = without_spot(sizes(2), "m3")
    (claim,) = planned(types, need(FAMILY, "Exists", least=3))
    capacity_type, choices = launched(claim, types)
    assert (capacity_type, values(choices, FAMILY)) == ("spot", {"m3"})
    only_spot = claim.requirements.with_(Requirement.new(CAPACITY_TYPE, "In", ["spot"]))
    with pytest.raises(NoOfferingError, match="asks for 3 values, but the types that can be bought have 1"):
        launched(dataclasses.replace(claim, requirements=only_spot), types)


@given(
    count=st.integers(1, 120),
    families=st.integers(1, 40),
    drawn=st.randoms(use_true_random=False),
    with_spot=st.integers(0, 3) | st.none(),
    least=st.dictionaries(st.sampled_from([FAMILY, SIZE, CPU]), st.integers(1, 15), min_size=1, max_size=3),
    best_effort=st.booleans(),
)
@settings(max_examples=60)
def test_aws026_what_is_planned_with_min_values_can_be_launched(
    count: int, families: int, drawn: Any, with_spot: int | None, least: dict[str, int], best_effort: bool
) -> None:
    """Large types are dear, and in a spot shortage only a few families are left of spot."""
    entries = []
    for number in range(count):
        cpu = 2 ** drawn.randint(1, 6)
        entries.append(entry(f"m{number % families}.s{number}", cpu, 4 * cpu, round(cpu * drawn.uniform(1, 2), 4)))
    types = catalog(*entries)
    if with_spot is not None:
        types = without_spot(types, *(f"m{number}" for number in range(with_spot)))
    requirements = (need(key, "Exists", least=number) for key, number in least.items())
    for claim in planned(types, *requirements, best_effort=best_effort):
        capacity_type, choices = launched(claim, types)
        assert 1 <= len(choices) <= MAX_TYPES
        assert {offering.capacity_type for choice in choices for offering in choice.offerings} == {capacity_type}


def test_min_values_that_were_relaxed_do_not_stop_a_launch() -> None:
    """MIN_VALUES_POLICY=BestEffort: EC2 may refuse more between the plan and the launch."""
    requirements = terms((TYPE, "Exists", [], 3))
    _, choices = choose(requirements, {"cpu": 500}, many(2), ZONES, min_values_relaxed=True)
    assert len(choices) == 2
