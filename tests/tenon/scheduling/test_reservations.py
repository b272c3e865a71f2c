"""Capacity reservations: taken first, each for so many nodes as it has places (SCH-094, SCH-095)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, PlannedClaim
from tests.tenon.scheduling.between_pods import WEB, domains, spread, web
from tests.tenon.scheduling.builders import ZONES, asking, catalog, entry, need, node, pod, pool, problem, replicas

RESERVED = need(labels.CAPACITY_TYPE, "In", "reserved")


def held(name: str, cpu: int, price: float, *places: tuple[str, str, int]) -> dict[str, Any]:
    """A type of 4 GiB a CPU with reservations, each an id, a zone and a number of places."""
    result = entry(name, cpu, 4 * cpu, price)
    result["offerings"] += [
        {
            "zone": zone,
            "capacityType": "reserved",
            "price": price / 10_000_000,
            "reservationId": name,
            "reservationCapacity": count,
        }
        for name, zone, count in places
    ]
    return result


def types(*places: tuple[str, str, int]) -> list[InstanceType]:
    """m5.large with reservations, and m5.xlarge without."""
    return catalog(held("m5.large", 2, 0.1, *places), entry("m5.xlarge", 4, 16, 0.19))


def markets(claims: tuple[PlannedClaim, ...]) -> Counter[str]:
    return Counter(claim.offering.capacity_type for claim in claims)


def test_sch095_a_reservation_is_taken_before_spot() -> None:
    (claim,) = solve(problem([pod()], pool(types=types(("cr-1", ZONES[1], 1))))).claims
    assert claim.offering == OfferingKey("reserved", "m5.large", ZONES[1])
    assert claim.instance_types == ("m5.large",)
    assert claim.requirements[labels.CAPACITY_TYPE].values == ("reserved",)
    assert claim.requirements[labels.RESERVATION_ID].values == ("cr-1",)


def test_sch094_nodes_beyond_the_places_are_bought() -> None:
    plan = solve(problem(replicas(5, "1500m"), pool(types=types(("cr-1", ZONES[0], 2)))))
    assert markets(plan.claims)["reserved"] == 2
    assert markets(plan.claims)["spot"] == len(plan.claims) - 2 > 0
    assert plan.unschedulable == {}
    bought = [claim for claim in plan.claims if claim.offering.capacity_type != "reserved"]
    assert not any(claim.requirements[labels.CAPACITY_TYPE].has("reserved") for claim in bought)


def test_sch094_pools_share_the_places_of_a_reservation() -> None:
    only_a, only_b = need("team", "In", "a"), need("team", "In", "b")
    instance_types = types(("cr-1", ZONES[0], 3))
    pods = [asking(f"{team}-{n}", need("team", "In", team), cpu="1500m") for team in "ab" for n in range(4)]
    plan = solve(problem(pods, pool("a", only_a, types=instance_types), pool("b", only_b, types=instance_types)))
    assert markets(plan.claims)["reserved"] == 3
    assert plan.unschedulable == {}


def test_sch094_pods_that_insist_wait_for_a_place() -> None:
    pods = [asking(f"p-{n}", RESERVED, cpu="1500m") for n in range(3)]
    plan = solve(problem(pods, pool(types=types(("cr-1", ZONES[0], 2)))))
    assert markets(plan.claims) == {"reserved": 2}
    (reason,) = map(str, plan.unschedulable.values())
    assert "cr-1" in reason


def test_a_pool_of_reservations_alone_buys_nothing() -> None:
    plan = solve(problem(replicas(3, "1500m"), pool("default", RESERVED, types=types(("cr-1", ZONES[0], 2)))))
    assert markets(plan.claims) == {"reserved": 2}
    (reason,) = map(str, plan.unschedulable.values())
    assert "cr-1" in reason


def test_a_pool_without_reserved_capacity_takes_no_place() -> None:
    on_demand = need(labels.CAPACITY_TYPE, "In", "on-demand")
    (claim,) = solve(problem([pod()], pool("default", on_demand, types=types(("cr-1", ZONES[0], 2))))).claims
    assert claim.offering.capacity_type == "on-demand"


def test_the_limits_of_a_pool_count_its_reserved_nodes() -> None:
    plan = solve(
        problem(replicas(5, "1500m"), pool(types=types(("cr-1", ZONES[0], 2)), limits={"cpu": "8"})),
    )
    cpus = {"m5.large": 2, "m5.xlarge": 4}
    assert sum(max(cpus[name] for name in claim.instance_types) for claim in plan.claims) <= 8
    assert markets(plan.claims)["reserved"] == 2
    assert plan.unschedulable


def test_spread_pods_take_the_places_of_their_zones() -> None:
    places = (("cr-a", ZONES[0], 1), ("cr-b", ZONES[1], 1))
    plan = solve(problem(web(3, spread(), cpu="1500m", labels=WEB), pool(types=types(*places))))
    assert domains(plan) == dict.fromkeys(ZONES, 1)
    assert markets(plan.claims) == {"reserved": 2, "spot": 1}


def test_a_node_that_there_is_comes_first() -> None:
    plan = solve(problem([pod()], pool(types=types(("cr-1", ZONES[0], 2))), nodes=[node()]))
    assert plan.claims == ()


def test_the_heavier_pool_comes_first_though_the_other_has_places() -> None:
    heavy = pool("heavy", types=catalog(entry("m5.large", 2, 8, 0.1)), weight=10)
    (claim,) = solve(problem([pod()], heavy, pool("light", types=types(("cr-1", ZONES[0], 2))))).claims
    assert claim.pool == "heavy"


@settings(max_examples=60, deadline=None)
@given(
    places=st.lists(st.tuples(st.sampled_from(ZONES), st.integers(0, 4)), max_size=3),
    pods=st.lists(st.tuples(st.sampled_from(["300m", "1500m", "3"]), st.integers(1, 8)), min_size=1, max_size=3),
    limit=st.sampled_from([None, {"cpu": "12"}, {"nodes": 3}]),
    pools=st.integers(1, 2),
)
def test_no_reservation_is_oversold(
    places: list[tuple[str, int]], pods: list[tuple[str, int]], limit: dict[str, Any] | None, pools: int
) -> None:
    texts = [(f"cr-{n}", zone, count) for n, (zone, count) in enumerate(places)]
    instance_types = types(*texts)
    load = [replica for n, (cpu, count) in enumerate(pods) for replica in replicas(count, cpu, prefix=f"g{n}")]
    plan = solve(problem(load, *(pool(f"pool-{n}", types=instance_types, limits=limit) for n in range(pools))))
    counter = Counter(
        claim.requirements[labels.RESERVATION_ID].values[0]
        for claim in plan.claims
        if claim.offering.capacity_type == "reserved"
    )
    assert all(counter[name] <= count for name, _, count in texts)
    planned = sorted([p.key for claim in plan.claims for p in claim.pods] + list(plan.unschedulable))
    assert planned == sorted(p.key for p in load)
    cpus = {"m5.large": 2, "m5.xlarge": 4}
    for number in range(pools):
        mine = [claim for claim in plan.claims if claim.pool == f"pool-{number}"]
        assert limit is None or "cpu" not in limit or sum(max(cpus[t] for t in c.instance_types) for c in mine) <= 12
        assert limit is None or "nodes" not in limit or len(mine) <= 3
    if limit is None:
        assert not plan.unschedulable
