"""The estimate of what pods cost where new nodes must leave several types open: never more than one node for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.disruption.deciding import decide
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.search import consolidation_search
from tenon.disruption.search.move_planner import Planner
from tenon.disruption.search.moves import Move
from tenon.disruption.search.price_estimate import PriceEstimate
from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY, PODS, total
from tenon.scheduling.model import InstanceType
from tests.tenon.disruption import clusters
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, situation
from tests.tenon.scheduling.builders import AMD64, CATALOG, ON_DEMAND, catalog, entry, need, pod, pool

NAMES = (CPU, MEMORY, PODS)
BURSTABLE = catalog(
    entry("t3.small", 2, 2, 0.0208), entry("t3.large", 2, 8, 0.0832), entry("t3.2xlarge", 8, 32, 0.3328)
)
FAMILY = "karpenter.k8s.aws/instance-family"


def price(kind: InstanceType) -> float:
    return min(offering.price for offering in kind.offerings if offering.capacity_type == labels.ON_DEMAND)


def dearest(kinds: list[InstanceType], pods: list[Pod], key: str, least: int) -> float:
    """Return the least that the dearest type costs among types that hold all pods, with so many values of the label."""
    requests = {name: sum(item.requests[name] for item in pods) for name in NAMES}
    values: set[str] = set()
    for kind in sorted(kinds, key=price):
        if all(kind.allocatable[name] >= amount for name, amount in requests.items()):
            values |= {kind.name} if key == labels.INSTANCE_TYPE else set(kind.requirements[key].members)
        if len(values) >= least:
            return price(kind)
    return inf


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 60)), min_size=1, max_size=8),
    st.lists(st.sampled_from(CATALOG), min_size=1, unique_by=lambda kind: kind.name),
    st.sampled_from([labels.INSTANCE_TYPE, FAMILY]),
    st.integers(2, 4),
)
def test_dis34_no_node_for_all_pods_costs_less_than_the_estimate(
    amounts: list[tuple[int, int]], kinds: list[InstanceType], key: str, least: int
) -> None:
    pods = [pod(f"p{number}", str(cpu), f"{memory}Gi") for number, (cpu, memory) in enumerate(amounts)]
    estimate = PriceEstimate(NAMES, [pool("default", ON_DEMAND, need(key, "Exists", least=least), types=kinds)])
    assert estimate.shared(pods) <= estimate.shared_with_choice(pods) + 1e-9
    assert estimate.shared_with_choice(pods) <= dearest(kinds, pods, key, least) + 1e-9
    assert estimate.of_room_with_choice(total(item.requests for item in pods)) <= dearest(kinds, pods, key, least)


@pytest.mark.parametrize(("least", "expected"), [(None, 0.085), (1, 0.085), (2, 0.096), (3, 0.126), (4, inf)])
def test_dis34_a_node_costs_as_much_as_the_dearest_type_that_it_must_leave_open(
    least: int | None, expected: float
) -> None:
    """The pod fills a c5.large. An m5.large and an r5.large have as much CPU, and nothing else is sold."""
    own = pool(
        "default",
        ON_DEMAND,
        AMD64,
        need(labels.INSTANCE_TYPE, "Exists", least=least),
        types=[kind for kind in CATALOG if kind.name.endswith(".large")],
    )
    full = [pod("p", "1900m", "3Gi")]
    estimate = PriceEstimate(NAMES, [own])
    assert estimate.shared_with_choice(full) == pytest.approx(expected)
    assert estimate.of_room_with_choice(full[0].requests) == pytest.approx(expected)
    assert estimate.has_min_values == estimate.has_only_min_values == ((least or 0) > 1)
    assert PriceEstimate(NAMES, [own], best_effort=True).shared_with_choice(full) == pytest.approx(0.085)


def test_a_type_that_costs_nothing_leaves_the_others_their_prices() -> None:
    """Alone it may not be listed, so that an m5.large is the cheapest node with two types."""
    kinds = [kind for kind in CATALOG if kind.name in ("c5.large", "m5.large")]
    free = [
        replace(kind, offerings=tuple(replace(offering, price=0.0) for offering in kind.offerings))
        if kind.name == "c5.large"
        else kind
        for kind in kinds
    ]
    two = need(labels.INSTANCE_TYPE, "Exists", least=2)
    estimate = PriceEstimate(NAMES, [pool("default", ON_DEMAND, AMD64, two, types=free)])
    assert estimate.shared_with_choice([pod("p", "1900m", "3Gi")]) == pytest.approx(0.096)


def test_pods_that_need_nothing_new_cost_nothing() -> None:
    """Also where no type leaves enough others open."""
    types = need(labels.INSTANCE_TYPE, "Exists", least=100)
    estimate = PriceEstimate(NAMES, [pool("default", types)])
    assert estimate.shared_with_choice([]) == 0.0
    assert estimate.shared_with_choice([pod()]) == inf


@pytest.mark.parametrize(("least", "largest"), [(None, 6), (3, 2)])
def test_dis37_the_engine_plans_no_large_sets_of_nodes_as_cheap_as_the_types_to_leave_open(
    least: int | None, largest: int
) -> None:
    """No two pods fit on one node. Three types that are as large as an m5.2xlarge do not all cost less.

    Few candidates are in sets of every size.
    """
    sizes: list[int] = []

    class Observed(Planner):
        """Notes how many nodes each plan is for."""

        def moves_of(self, claims: Sequence[str], closed: Collection[str] = frozenset()) -> list[Move]:
            sizes.append(len(claims))
            return super().moves_of(claims, closed)

    requirements = [{"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": least}] if least else []
    cluster = Cluster(
        pools={"default": PoolSpec(requirements=requirements)},
        nodes={f"n{number}": NodeSpec(type="m5.2xlarge", pods=[PodSpec(cpu="5")]) for number in range(6)},
    )
    with patch.object(consolidation_search, "Planner", Observed):
        decide(situation(cluster), [Consolidation()])
        assert max(sizes) == 6
        sizes.clear()
        with patch.object(consolidation_search, "FEW", 5):
            decide(situation(cluster), [Consolidation()])
    assert max(sizes) == largest


@pytest.mark.parametrize(
    ("node", "steady_types", "cpu"),
    [("t3.2xlarge", [], "200m"), ("m5.large", ["m5.large"], "200m"), ("m5.large", ["m5.large"], "1900m")],
)
def test_dis05_a_burstable_type_that_is_cheaper_replaces_one_node(node: str, steady_types: list[str], cpu: str) -> None:
    """The engine buys burstable types for the pods of one node, also in a NodePool that sells others."""
    types = {kind.name: kind for kind in (*CATALOG, *BURSTABLE)}
    cluster = Cluster(
        pools={"default": PoolSpec(types=[*steady_types, *(kind.name for kind in BURSTABLE)])},
        nodes={"a": NodeSpec(type=node, pods=[PodSpec(cpu=cpu, memory="256Mi")])},
    )
    with patch.object(clusters, "types", lambda: types):
        (command,) = decide(situation(cluster), [Consolidation()]).commands
    assert [claim.offering.instance_type for claim in command.replacements] == ["t3.small"]


def test_pods_of_several_nodes_share_burstable_types_only_if_nothing_else_is_sold() -> None:
    """A t3.2xlarge has room for eight of the pods, but its price buys the steady load of three."""
    pods = [pod("p", "900m", "2Gi")]
    burstable = PriceEstimate(NAMES, [pool("default", ON_DEMAND, AMD64, types=BURSTABLE)])
    mixed = PriceEstimate(NAMES, [pool("default", ON_DEMAND, AMD64, types=[*BURSTABLE, *CATALOG])])
    steady = PriceEstimate(NAMES, [pool("default", ON_DEMAND, AMD64, types=CATALOG)])
    assert burstable.shared(pods) < inf
    assert burstable.of_room({CPU: 1000, MEMORY: 2**30}) == pytest.approx(0.0208)
    assert mixed.shared(pods) == steady.shared(pods)
    assert mixed.of_room({CPU: 1000, MEMORY: 2**30}) == steady.of_room({CPU: 1000, MEMORY: 2**30})
    assert mixed.alone([pod("p", "900m", "1Gi")]) == pytest.approx(0.0208)
