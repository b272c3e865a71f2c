"""How many nodes of scarce types a NodePool launches at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.kube.timestamps import format_instant
from tenon.provisioning.launch_budget import (
    PROVEN_AFTER,
    START,
    Storm,
    free_launches,
    is_scarce,
    refused_in_storm,
    within_budget,
)
from tenon.scheduling.model import Plan, PlannedClaim
from tests.tenon.scheduling.builders import pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
STORM = Storm(NOW - timedelta(minutes=1), frozenset({"m5.large", "g4dn.xlarge"}))
TARGET = 600


def claim(
    name: str,
    kind: str = "g4dn.xlarge",
    *,
    pool: str = "gpu",
    launched_at: datetime | None = None,
    capacity_types: Sequence[str] = (),
) -> ClaimRecord:
    launched = (
        {
            "providerID": f"aws:///us-west-2a/i-{name}",
            "conditions": [{"type": "Launched", "status": "True", "lastTransitionTime": format_instant(launched_at)}],
        }
        if launched_at is not None
        else {}
    )
    return ClaimRecord.of(
        {
            "metadata": {
                "name": name,
                "labels": {
                    labels.NODEPOOL: pool,
                    **({labels.INSTANCE_TYPE: kind, labels.CAPACITY_TYPE: "spot"} if launched_at is not None else {}),
                },
            },
            "spec": {
                "requirements": [
                    {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [kind]},
                    *({"key": labels.CAPACITY_TYPE, "operator": "In", "values": [name]} for name in capacity_types),
                ]
            },
            "status": launched,
        }
    )


def planned(number: int, kind: str = "g4dn.xlarge", pool: str = "gpu") -> PlannedClaim:
    offering = OfferingKey("spot", kind, "us-west-2a")
    return PlannedClaim(pool, (pod(f"{pool}-{number}"),), (kind,), Requirements(), {}, 0.5, offering)


def test_types_with_accelerators_and_those_that_ec2_refused_are_scarce() -> None:
    assert is_scarce(["g4dn.xlarge", "p4d.24xlarge"], None)
    assert not is_scarce(["g4dn.xlarge", "m5.large"], None)
    assert not is_scarce(["m5.large"], None)
    assert is_scarce(["m5.large", "m6i.large"], STORM)
    assert not is_scarce(["c5.large"], STORM), "other types of the NodePool launch as always"
    assert not is_scarce([], None)


def test_only_nodes_of_the_pool_and_of_scarce_types_count() -> None:
    launching = [claim(f"a{n}") for n in range(5)]
    others = [claim("b", "c5.large"), claim("c", pool="other")]
    assert free_launches([*launching, *others], "gpu", "spot", None, NOW) == START - 5


def test_a_node_that_waits_for_spot_leaves_the_budget_of_on_demand_alone() -> None:
    spot = [claim(f"a{n}", capacity_types=["spot"]) for n in range(START)]
    assert free_launches(spot, "gpu", "spot", None, NOW) == 0
    assert free_launches(spot, "gpu", "on-demand", None, NOW) == START
    assert free_launches([claim("b")], "gpu", "on-demand", None, NOW) == START - 1, "it may get either"


def test_each_launch_since_the_last_refusal_lets_one_more_launch() -> None:
    before = [claim(f"a{n}", launched_at=STORM.last - timedelta(seconds=5)) for n in range(7)]
    after = [claim(f"b{n}", launched_at=STORM.last + timedelta(seconds=5)) for n in range(3)]
    assert free_launches([*before, *after], "gpu", "spot", STORM, NOW) == START + 3
    assert free_launches([*before, *after], "gpu", "on-demand", STORM, NOW) == START, "launches of spot say nothing"
    assert free_launches([*before, *after], "gpu", "spot", None, NOW) == START + 10


def test_a_launch_counts_when_its_instance_has_not_ended_at_once() -> None:
    launches = [claim(f"a{n}", launched_at=NOW - timedelta(seconds=seconds)) for n, seconds in enumerate((1, 4, 6))]
    assert free_launches(launches, "gpu", "spot", None, NOW) == START + 1


def test_all_nodes_launch_in_six_rounds_once_ec2_has_capacity() -> None:
    """Twice as many in each round: 20, 40, 80 and so on."""
    at = NOW - PROVEN_AFTER
    claims, rounds = [claim("probe", launched_at=at)], 0
    while len(claims) < TARGET:
        free = free_launches(claims, "gpu", "spot", STORM, NOW)
        claims += [claim(f"{rounds}-{n}", launched_at=at) for n in range(min(free, TARGET - len(claims)))]
        rounds += 1
    assert rounds <= 6


@given(st.lists(st.sampled_from(["g4dn.xlarge", "c5.large"]), max_size=60), st.integers(0, 30))
def test_a_plan_keeps_all_ordinary_nodes_and_as_many_scarce_ones_as_are_free(kinds: list[str], free: int) -> None:
    plan = Plan(claims=tuple(planned(number, kind) for number, kind in enumerate(kinds)))
    limited, waits = within_budget(plan, lambda item: is_scarce(item.instance_types, None), lambda *_: free)
    scarce = kinds.count("g4dn.xlarge")
    assert len(limited.claims) == len(kinds) - max(0, scarce - free)
    assert len(waits) == max(0, scarce - free)
    assert waits.keys() == limited.unschedulable.keys()
    placed = {item.key for claim_of_plan in limited.claims for item in claim_of_plan.pods}
    assert placed.isdisjoint(waits)
    assert all(
        "NodePool gpu: it launches 20 nodes of scarce spot types at once" in str(why)
        for why in limited.unschedulable.values()
    )


def test_pools_have_budgets_of_their_own() -> None:
    plan = Plan(claims=(*(planned(n) for n in range(30)), *(planned(n, pool="other") for n in range(30))))
    limited, _ = within_budget(plan, lambda _: True, lambda *_: START)
    assert [item.pool for item in limited.claims].count("gpu") == START
    assert [item.pool for item in limited.claims].count("other") == START


def test_a_storm_remembers_all_types_that_were_refused_in_it() -> None:
    storm = refused_in_storm(refused_in_storm(None, ["m5.large"], NOW), ["c5.large"], NOW + timedelta(seconds=1))
    assert storm == Storm(NOW + timedelta(seconds=1), frozenset({"m5.large", "c5.large"}))
