"""Pods that wait while EC2 refuses all but far dearer nodes: which do, what they get elsewhere, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.unavailable import UnavailableOfferings, next_attempt_of
from tenon.ec2.types.instance_types import without
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.messages.provisioning import ShortageWait
from tenon.provisioning.shortage_sentences import price_obstacle, still_waiting, waiting_sentence
from tenon.provisioning.shortage_waits import (
    MAX_GROUPS,
    dear_nodes,
    elsewhere,
    grouped,
    held_back,
    without_dear_types,
)
from tenon.scheduling.engine import solve
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, Plan, Pool
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.scheduling.builders import ON_DEMAND, catalog, entry, need, pod, pool, problem

UNTIL = datetime(2026, 3, 1, 9, 59, 10, tzinfo=UTC)
ZONE = ["us-west-2a"]
TYPES = catalog(
    entry("c5.large", 2, 4, 0.085, zones=ZONE),
    entry("m5.large", 2, 8, 0.096, zones=ZONE),
    entry("r5.large", 2, 16, 0.126, zones=ZONE),
    entry("m5.16xlarge", 64, 256, 3.072, zones=ZONE),
    entry("m5.24xlarge", 96, 384, 4.608, zones=ZONE),
)
CHEAP = ("c5.large", "m5.large", "r5.large")


@dataclass
class Outcome:
    """A plan with what its pods wait for."""

    plan: Plan
    waits: Mapping[str, ShortageWait]

    @property
    def bought(self) -> list[tuple[str, str, list[str]]]:
        """The NodePool, cheapest type and pods of each new node."""
        return [(c.pool, c.instance_types[0], sorted(p.name for p in c.pods)) for c in self.plan.claims]


def planned(
    pods: Sequence[Pod], *pools: Pool, refused: Iterable[str] = CHEAP, spot_too: bool = False, **policies: NodePool
) -> Outcome:
    """Plan as the worker does, while EC2 refuses these types on demand."""
    capacity_types = ("on-demand", "spot") if spot_too else ("on-demand",)
    until = {OfferingKey(kind, name, ZONE[0]): UNTIL for name in refused for kind in capacity_types}
    types: dict[str, Sequence[InstanceType]] = {}
    for item in pools:
        types[item.name] = without(list(item.instance_types), UnavailableOfferings(until))
    requests = problem(
        pods, *(pool(entry.name, *entry.requirements.values(), types=types[entry.name]) for entry in pools)
    )
    prices = TypeChoiceExplainer(requests, types, partial(next_attempt_of, until))
    plan, waits = solve(requests), dict[str, ShortageWait]()
    if first := dear_nodes(plan, policies, prices):
        second = solve(problem(elsewhere(pods, first), *requests.pools))
        plan, waits = held_back(second, pods, first, policies, prices)
    return Outcome(without_dear_types(plan, policies, prices), waits)


def policy(name: str = "default", **more: str) -> NodePool:
    return node_pool(name, annotations={labels.SHORTAGE_POLICY: "Wait", **more})


def default(types: Iterable[InstanceType] = TYPES) -> Pool:
    return pool("default", ON_DEMAND, types=types)


def test_pods_wait_for_the_offering_that_they_would_usually_get() -> None:
    outcome = planned([pod("a")], default(), default=policy())
    assert outcome.bought == []
    assert str(outcome.plan.unschedulable["default/a"]) == (
        "NodePool default: EC2 refused c5.large at $0.0850 an hour, and the cheapest node left is m5.16xlarge at "
        "$3.0720: next attempt at 2026-03-01 09:59:10 UTC; the pod waits because tenon.sh/shortage-policy of the "
        "NodePool is Wait; annotate the pod with tenon.sh/shortage-policy=Buy to get the node now"
    )
    assert outcome.waits["default/a"].until == UNTIL


def test_without_the_policy_or_with_buy_the_dear_node_is_bought() -> None:
    dear = [("default", "m5.16xlarge", ["a"])]
    assert planned([pod("a")], default(), default=node_pool()).bought == dear
    buy = node_pool(annotations={labels.SHORTAGE_POLICY: "Buy"})
    assert planned([pod("a")], default(), default=buy).bought == dear


def test_the_factor_of_the_nodepool_says_what_is_far_dearer() -> None:
    generous = policy(**{labels.SHORTAGE_PRICE_FACTOR: "50"})
    assert planned([pod("a")], default(), default=generous).bought == [("default", "m5.16xlarge", ["a"])]


def test_a_node_at_little_more_than_the_usual_price_is_bought() -> None:
    outcome = planned([pod("a")], default(), refused=["c5.large"], default=policy())
    assert outcome.bought == [("default", "m5.large", ["a"])]
    assert outcome.waits == {}


def test_a_node_that_is_large_because_its_pod_is_large_is_bought() -> None:
    """Nothing that EC2 refused would hold it."""
    outcome = planned([pod("large", "50")], default(), default=policy())
    assert outcome.bought == [("default", "m5.16xlarge", ["large"])]


def test_many_pods_wait_if_several_small_nodes_would_cost_far_less() -> None:
    """No refused type holds all of them. A node for as many as it is worth is bought."""
    pods = [pod(f"p-{n}") for n in range(5)]
    outcome = planned(pods, default(), default=policy())
    assert outcome.bought == []
    assert "EC2 refused 5 nodes c5.large at $0.4250 an hour" in str(outcome.plan.unschedulable["default/p-0"])
    many = [pod(f"p-{n}") for n in range(40)]
    assert [kind for _, kind, _ in planned(many, default(), default=policy()).bought] == ["m5.16xlarge"]


def test_a_pod_that_does_not_wait_gets_its_node_without_those_that_wait() -> None:
    pods = [pod("a"), pod("urgent", buys_in_shortage=True), pod("b")]
    outcome = planned(pods, default(), default=policy())
    assert outcome.bought == [("default", "m5.16xlarge", ["urgent"])]
    assert outcome.waits.keys() == {"default/a", "default/b"}


def test_another_nodepool_takes_pods_that_would_wait() -> None:
    """Which is why they are planned again. Their own record in the plan is unchanged."""
    other = pool("other", ON_DEMAND, types=catalog(entry("c6i.large", 2, 4, 0.2, zones=ZONE)))
    first = pool("default", ON_DEMAND, types=TYPES, weight=10)
    outcome = planned([pod("a")], first, other, default=policy(), other=node_pool("other"))
    assert outcome.bought == [("other", "c6i.large", ["a"])]
    assert outcome.waits == {}
    assert outcome.plan.claims[0].pods == (pod("a"),)


def test_pods_wait_if_each_of_their_nodepools_has_them_wait() -> None:
    outcome = planned(
        [pod("a")], default(), pool("other", ON_DEMAND, types=TYPES), default=policy(), other=policy("other")
    )
    assert outcome.bought == []
    assert outcome.waits.keys() == {"default/a"}


def test_on_demand_capacity_instead_of_spot_is_no_reason_to_wait() -> None:
    pair = pool("default", need(labels.CAPACITY_TYPE, "In", "spot", "on-demand"), types=TYPES[:1])
    until = {OfferingKey("spot", "c5.large", ZONE[0]): UNTIL}
    types = without(TYPES[:1], UnavailableOfferings(until))
    requests = problem([pod("a")], pool("default", *pair.requirements.values(), types=types))
    prices = TypeChoiceExplainer(requests, {"default": types}, partial(next_attempt_of, until))
    assert dear_nodes(solve(requests), {"default": policy()}, prices) == {}


def test_a_request_names_no_type_that_pods_would_not_accept() -> None:
    """EC2 buys any type of a request, so a shortage that no plan knows of would buy the dear ones."""
    outcome = planned([pod("a")], default(), refused=[], default=policy())
    assert [c.instance_types for c in outcome.plan.claims] == [CHEAP]
    outcome = planned([pod("a")], default(), refused=[], default=node_pool())
    assert "m5.16xlarge" in outcome.plan.claims[0].instance_types
    outcome = planned([pod("a", buys_in_shortage=True)], default(), refused=[], default=policy())
    assert "m5.16xlarge" in outcome.plan.claims[0].instance_types


def test_a_request_keeps_the_types_that_min_values_asks_for() -> None:
    diverse = pool("default", ON_DEMAND, need(labels.INSTANCE_TYPE, "Exists", least=4), types=TYPES)
    outcome = planned([pod("a")], diverse, refused=[], default=policy())
    assert len(outcome.plan.claims[0].instance_types) == len(TYPES)


def wait(name: str = "default", kind: str = "m5.16xlarge") -> ShortageWait:
    return ShortageWait(
        pool=name, instance_type=kind, price=3.072, usual_type="c5.large", usual_price=0.085, until=UNTIL
    )


def test_pods_that_wait_for_the_same_are_one_row() -> None:
    rows = grouped({"team/b": wait(), "team/a": wait(), "team/c": wait("other")})
    assert [(row.pool, row.pods, row.pod) for row in rows] == [("default", 2, "team/a"), ("other", 1, "team/c")]
    assert waiting_sentence(rows[0]) == (
        "2 pods, such as team/a, wait for a cheaper node: NodePool default: EC2 refused c5.large at $0.0850 an hour, "
        "and the cheapest node left is m5.16xlarge at $3.0720: next attempt at 2026-03-01 09:59:10 UTC"
    )
    assert waiting_sentence(rows[1]).startswith("1 pod (team/c) waits for a cheaper node: ")


def test_a_row_names_the_next_attempt_by_now_and_goes_when_ec2_refuses_nothing_any_more() -> None:
    """EC2 may have refused the type again since the plan, and the probe of its pods comes before the pause is over."""
    refused_at = UNTIL + timedelta(seconds=10)
    backoffs = {OfferingKey("on-demand", "c5.large", ZONE[0]): Backoff(UNTIL + timedelta(minutes=6), refused_at, 2)}
    (row,) = still_waiting([wait()], backoffs, UNTIL + timedelta(seconds=20))
    assert row.until == refused_at + timedelta(minutes=1)
    (due,) = still_waiting([wait()], backoffs, UNTIL + timedelta(minutes=2))
    assert due.until == UNTIL + timedelta(minutes=2)
    assert still_waiting([wait()], {}, UNTIL) == []


def test_the_rows_are_bounded() -> None:
    assert len(grouped({f"team/{n}": wait(f"pool-{n}") for n in range(3 * MAX_GROUPS)})) == MAX_GROUPS


def test_a_pod_says_how_it_stops_waiting() -> None:
    assert str(price_obstacle(wait())).endswith(
        "annotate the pod with tenon.sh/shortage-policy=Buy to get the node now"
    )
