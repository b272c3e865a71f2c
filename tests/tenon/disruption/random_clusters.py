"""Random clusters for property tests of the disruption methods: small ones of hypothesis, and larger ones by seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from tenon.apis import labels
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, types

FAMILIES = ("c5", "m5", "r5")
SIZES = ("large", "xlarge", "2xlarge", "4xlarge")
ZONES = ("us-west-2a", "us-west-2b")


@st.composite
def pods(draw: st.DrawFn, spot: bool, rules: bool, often: bool = False) -> PodSpec:
    return PodSpec(
        count=draw(st.integers(1, 3)),
        cpu=draw(st.sampled_from(["100m", "500m", "1", "1500m"])),
        memory=draw(st.sampled_from(["128Mi", "1Gi", "2Gi"])),
        app=draw(st.sampled_from(["web", "db"])),
        selector=draw(
            st.sampled_from([{}, {}, {}, {labels.ZONE: ZONES[0]}, {labels.CAPACITY_TYPE: "spot"} if spot else {}])
        ),
        apart=rules and draw(st.sampled_from([False] * (2 if often else 7) + [True])),
        spread=draw(st.sampled_from([*([""] * (2 if often else 6)), "zone", "host"])) if rules else "",
        priority=draw(st.sampled_from([0, 0, 0, 1_000_000_000, -(2**30)])),
    )


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    free: bool = False,
    rules: bool = True,
    often: bool = False,
    spot: bool = True,
    most: int = 8,
) -> Cluster:
    """Clusters of nodes in up to two pools.

    Args:
        draw: of hypothesis.
        free: nothing but the price keeps a node.
        rules: there are rules between pods.
        often: many pods have such rules.
        spot: there are spot nodes.
        most: how many nodes there are at most.
    """
    names = ["default", "other"][: draw(st.integers(1, 2))]
    pools = {
        name: PoolSpec(
            capacity_types=draw(st.sampled_from([["on-demand"], ["on-demand", "spot"], ["spot"]][: 3 if spot else 1])),
            policy="WhenEmptyOrUnderutilized"
            if free
            else draw(st.sampled_from(["WhenEmptyOrUnderutilized", "Balanced", "WhenEmpty"])),
            budgets=[{"nodes": "100%" if free else draw(st.sampled_from(["0", "1", "2", "50%", "100%"]))}],
            weight=draw(st.sampled_from([0, 10])),
            consolidate_after="0s" if free else draw(st.sampled_from(["0s", "5m", None])),
            limits=None if free else draw(st.sampled_from([None, None, {"cpu": "24"}])),
            requirements=draw(
                st.sampled_from([[], [{"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 3}]])
            ),
        )
        for name in names
    }
    nodes = {}
    for number in range(draw(st.integers(1, most))):
        pool = draw(st.sampled_from(names))
        node = NodeSpec(
            pool=pool,
            type=f"{draw(st.sampled_from(FAMILIES))}.{draw(st.sampled_from(SIZES))}",
            zone=draw(st.sampled_from(ZONES)),
            capacity_type=draw(st.sampled_from(pools[pool].capacity_types)),
            quiet="1h" if free else draw(st.sampled_from(["1h", "1m", None])),
            leaving=not free and draw(st.sampled_from([False] * 7 + [True])),
            protected=not free and draw(st.sampled_from([False] * 7 + [True])),
            held_by="" if free else draw(st.sampled_from([""] * 7 + ["pod default/db has do-not-disrupt"])),
            initialized=free or draw(st.sampled_from([True] * 7 + [False])),
            pods=[],
        )
        mine: list[PodSpec] = []
        for pod in draw(st.lists(pods(node.capacity_type == "spot", rules, often), min_size=1, max_size=3)):
            if _holds(node, [*mine, pod]):
                mine.append(pod)
        nodes[f"n{number}"] = node.model_copy(update={"pods": mine})
    names_of_nodes = sorted(nodes)
    return Cluster(
        pools=pools,
        nodes=nodes,
        nominated=[] if free else draw(st.lists(st.sampled_from(names_of_nodes), max_size=1)),
        buffer_hosts=[] if free else draw(st.lists(st.sampled_from(names_of_nodes), max_size=1)),
    )


def large_cluster(seed: int, count: int, *, rules: bool) -> Cluster:
    """A cluster of so many nodes that only the price keeps, too many for hypothesis to draw.

    Args:
        seed: the same seed gives the same cluster.
        count: the number of nodes.
        rules: there are rules between pods.
    """
    selection = random.Random(seed)
    diverse = [{"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 3}]
    pools = {
        name: PoolSpec(
            capacity_types=selection.choice([["on-demand"], ["on-demand", "spot"], ["spot"]]),
            weight=selection.choice([0, 10]),
            requirements=selection.choice([[], diverse]),
        )
        for name in ["default", "other"][: selection.randint(1, 2)]
    }
    nodes = {}
    for number in range(count):
        pool = selection.choice(sorted(pools))
        node = NodeSpec(
            pool=pool,
            type=f"{selection.choice(FAMILIES)}.{selection.choice(SIZES)}",
            zone=selection.choice(ZONES),
            capacity_type=selection.choice(pools[pool].capacity_types),
        )
        mine: list[PodSpec] = []
        for _ in range(selection.randint(1, 6)):
            pod = PodSpec(
                count=selection.randint(1, 3),
                cpu=selection.choice(["100m", "500m", "1", "1500m"]),
                memory=selection.choice(["128Mi", "1Gi", "2Gi"]),
                app=selection.choice(["web", "db", "api", "job"]),
                selector=selection.choice([{}, {}, {}, {labels.ZONE: ZONES[0]}]),
                apart=rules and selection.random() < 1 / 8,
                spread=selection.choice(["", "", "", "", "", "", "zone", "host"]) if rules else "",
                priority=selection.choice([0, 0, 0, 1_000_000_000, -(2**30)]),
            )
            if _holds(node, [*mine, pod]):
                mine.append(pod)
        nodes[f"n{number:03}"] = node.model_copy(update={"pods": mine})
    return Cluster(pools=pools, nodes=nodes)


def _holds(node: NodeSpec, mine: Sequence[PodSpec]) -> bool:
    """Whether the node can have these pods, which wish for nothing that it is not."""
    if any(pod.selector.get(labels.ZONE, node.zone) != node.zone for pod in mine):
        return False
    cpu = sum(pod.count * {"100m": 100, "500m": 500, "1": 1000, "1500m": 1500}[pod.cpu] for pod in mine)
    memory = sum(pod.count * {"128Mi": 128, "1Gi": 1024, "2Gi": 2048}[pod.memory] for pod in mine)
    room = types()[node.type].allocatable
    return cpu <= room["cpu"] and memory * 2**20 <= room["memory"]
