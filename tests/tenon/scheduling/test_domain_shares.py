"""Pods that spread over zones are divided among them so that nodes are full, where that costs less."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.resources import NODES, parse_resources, total
from tenon.scheduling import domain_shares, engine
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.column_generation.columns import Columns, ProgramFailedError
from tenon.scheduling.domains.topology_counts import least_per_domain
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan
from tests.tenon.scheduling.between_pods import chosen, domains, near, spread, web
from tests.tenon.scheduling.builders import AMD64, CATALOG, ON_DEMAND, ZONES, catalog, entry, node, pool, price, problem

THREE_PODS = catalog(entry("m5.xlarge", 4, 16, 0.192))
"""A type that holds three pods of `app`, and no other."""


def app(name: str, count: int, skew: int = 2, cpu: str = "1250m", **more: Any) -> list[Pod]:
    """Pods that spread over zones."""
    rules = more.pop("rules", None) or spread(skew=skew, selector=chosen(app=name), **more)
    return web(count, rules, name, labels={"app": name}, cpu=cpu)


def planned(pods: list[Pod], types: list[Any] = THREE_PODS, **more: Any) -> Plan:
    return solve(problem(pods, pool("default", ON_DEMAND, AMD64, types=types), **more), columns=Columns())


def in_zones(plan: Plan, prefix: str) -> list[int]:
    return sorted(domains(plan, prefix=prefix).values())


def test_zones_have_other_shares_if_nodes_are_then_full() -> None:
    """Two pods of each app in each zone are four, for which each zone needs a second node."""
    plan = planned([*app("red", 6), *app("blue", 6)])
    assert [len(claim.pods) for claim in plan.claims] == [3, 3, 3, 3]
    assert in_zones(plan, "red") == in_zones(plan, "blue") == [1, 2, 3]


def test_shares_stay_within_the_skew() -> None:
    plan = planned([*app("red", 6, skew=1), *app("blue", 6, skew=1)])
    assert in_zones(plan, "red") == in_zones(plan, "blue") == [2, 2, 2]
    assert len(plan.claims) == 6


def test_with_fewer_zones_than_min_domains_no_zone_has_more_than_the_skew() -> None:
    plan = planned([*app("red", 5, min_domains=4), *app("blue", 6)])
    assert not plan.unschedulable
    assert in_zones(plan, "red") == [1, 2, 2]


def test_running_pods_count() -> None:
    """Three red pods run in the first zone, so it gets none of six more while the others have fewer than two."""
    running = node("n", pods=app("red", 3), closed=True, labels={labels.ZONE: ZONES[0]})
    batch = [pod for pod in app("red", 9) if pod.key not in {running_pod.key for running_pod in running.pods}]
    plan = planned([*batch, *app("blue", 6)], nodes=[running])
    red = [domains(plan, prefix="red")[zone] for zone in ZONES]
    assert not plan.unschedulable
    assert max(red[0] + 3, *red[1:]) - min(red[0] + 3, *red[1:]) <= 2


def test_pods_that_others_follow_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which zones the followers may use depends on the pods that they follow."""
    pods = [*app("red", 3, cpu="1"), *app("blue", 6, cpu="500m"), *web(3, near(app="red"), "follower", cpu="1")]
    after = planned(pods)
    monkeypatch.setattr(engine, "share_again", lambda *_: False)
    assert domains(after, prefix="red") == domains(planned(pods), prefix="red")


def test_pods_of_two_sizes_that_one_constraint_counts_stay_within_the_skew() -> None:
    """How many of one size a zone may have depends on where those of the other size go."""
    rules, of_red = spread(skew=2, selector=chosen(app="red")), {"app": "red"}
    pods = [
        *web(6, rules, "red-small", labels=of_red, cpu="1"),
        *web(6, rules, "red-large", labels=of_red, cpu="1250m"),
    ]
    plan = planned(pods, types=CATALOG)
    counts = domains(plan, prefix="red")
    assert max(counts[zone] for zone in ZONES) - min(counts[zone] for zone in ZONES) <= 2


def test_equal_problems_have_equal_plans() -> None:
    pods = [*app("red", 6), *app("blue", 6)]
    assert planned(pods) == planned(pods[::-1])


def test_a_solver_that_fails_leaves_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ProgramFailedError("it took too long")

    monkeypatch.setattr(domain_shares, "buy", fails)
    generation = Columns()
    batch = problem([*app("red", 6), *app("blue", 6)], pool("default", ON_DEMAND, AMD64, types=THREE_PODS))
    plan = solve(batch, columns=generation)
    assert generation.failures == ["it took too long"]
    assert not plan.unschedulable
    assert sum(len(claim.pods) for claim in plan.claims) == 12


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 12), st.sampled_from([1, 2, 3]), st.sampled_from(["300m", "500m", "1250m", "1"]),
            st.sampled_from([1, 1, 2, 4]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([THREE_PODS, CATALOG]),
    st.sampled_from([0, 0, 1, 3]),
    st.sampled_from([None, None, {"cpu": 12}, {"cpu": 40}, {"nodes": 5}]),
)  # fmt: skip
def test_no_plan_is_dearer_or_breaks_a_rule(
    apps: list[tuple[int, int, str, int]], types: list[Any], followers: int, limits: dict[str, Any] | None
) -> None:
    """Nor if some pods follow others, or if limits may bind."""
    pods = [
        pod
        for number, (count, skew, cpu, least_domains) in enumerate(apps)
        for pod in app(f"app{number}-", count, skew, cpu, min_domains=least_domains)
    ]
    pods += web(followers, near(app="app0-"), "follower", cpu="500m")
    batch = problem(pods, pool("default", ON_DEMAND, AMD64, types=types, limits=limits))
    after = solve(batch, columns=Columns())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "share_again", lambda *_: False)
        before = solve(batch, columns=Columns())
    assert after.unschedulable == before.unschedulable
    used = total([{**claim.largest, NODES: 1} for claim in after.claims])
    assert all(used.get(name, 0) <= limit for name, limit in parse_resources(limits or {}).items())
    assert set(domains(after, prefix="follower")) <= set(domains(after, prefix="app0-"))
    assert sizing_cost(batch, after) <= sizing_cost(batch, before) + 1e-9
    assert price(after) <= price(before) + 1e-9
    assert Counter(pod.key for claim in after.claims for pod in claim.pods) == Counter(
        pod.key for claim in before.claims for pod in claim.pods
    )
    for number, (_, skew, _, least_domains) in enumerate(apps):
        counts = domains(after, prefix=f"app{number}-")
        least = min(counts[zone] for zone in ZONES) if least_domains <= len(ZONES) else 0
        assert all(count - least <= skew for count in counts.values())


@pytest.mark.parametrize(("zones", "skew"), list(product([1, 2, 3, 4], [1, 2, 3])))
def test_the_least_of_a_domain_is_that_of_the_most_uneven_division(zones: int, skew: int) -> None:
    for pods in range(10):
        divisions = [counts for counts in product(range(pods + 1), repeat=zones) if sum(counts) == pods]
        allowed = [counts for counts in divisions if max(counts) - min(counts) <= skew]
        assert min(map(min, allowed)) == least_per_domain(pods, zones, skew)
