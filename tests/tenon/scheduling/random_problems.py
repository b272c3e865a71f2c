"""Random scheduling problems."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.resources import parse_resources
from tenon.scheduling.model import InstanceType, Pool, Problem
from tests.tenon.scheduling.builders import CATALOG, DEDICATED, ZONES, need, node


class Types(list[InstanceType]):
    """The catalogue, printed short when an example fails."""

    def __repr__(self) -> str:
        return "CATALOG"


FAMILY = "karpenter.k8s.aws/instance-family"
NEEDS = [
    need(labels.ZONE, "In", ZONES[0]),
    need(labels.ZONE, "NotIn", ZONES[0], ZONES[1]),
    need(labels.CAPACITY_TYPE, "In", "spot"),
    need(labels.CAPACITY_TYPE, "In", "on-demand"),
    need(labels.ARCH, "In", "amd64"),
    need(labels.ARCH, "In", "arm64"),
    need(FAMILY, "In", "m5", "r5"),
    need("karpenter.k8s.aws/instance-cpu", "Lt", "20"),
    need("karpenter.k8s.aws/instance-cpu", "Gt", "8"),
    need("team", "In", "a"),
    need("team", "In", "a", "b"),
    need("team", "NotIn", "a"),
    need("team", "DoesNotExist"),
]
terms = st.lists(st.sampled_from(NEEDS), min_size=1, max_size=2).map(lambda parts: Requirements.of(*parts))
tolerations = st.sampled_from([(), (Toleration(operator="Exists"),), (Toleration("dedicated", "Equal", "x"),)])
ports = st.sampled_from([(), (), (("", 80, "TCP"),), (("10.0.0.1", 80, "TCP"),), (("", 81, "TCP"),)])


@st.composite
def pods(draw: st.DrawFn, prefix: str, cpus: list[str], most: int) -> list[Pod]:
    requests = parse_resources(
        {"cpu": draw(st.sampled_from(cpus)), "memory": draw(st.sampled_from(["64Mi", "1Gi", "7Gi", "40Gi"])), "pods": 1}
    )
    alternatives = tuple(draw(st.lists(terms, max_size=2)))
    pod = Pod("default", "", "", requests, {}, alternatives, draw(tolerations), draw(ports))
    return [replace(pod, name=f"{prefix}-{n}", uid=f"{prefix}-{n}") for n in range(draw(st.integers(1, most)))]


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    parts = draw(st.lists(st.sampled_from([*NEEDS, need(FAMILY, "Exists", least=2)]), max_size=2))
    limits = draw(st.sampled_from([None, None, {"nodes": 2}, {"cpu": 60_000}, {"cpu": 500_000, "memory": 2**38}]))
    return Pool(
        name,
        Requirements.of(*parts),
        Types(CATALOG),
        weight=draw(st.sampled_from([0, 0, 10])),
        taints=draw(st.sampled_from([(), (), (DEDICATED,), (Taint("soft", "PreferNoSchedule"),)])),
        limits=limits,
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    groups = [draw(pods(f"g{n}", ["100m", "1", "3500m", "20"], 12)) for n in range(draw(st.integers(1, 4)))]
    daemons = [draw(pods(f"d{n}", ["50m", "500m"], 1))[0] for n in range(draw(st.integers(0, 2)))]
    some_nodes = [
        node(
            f"n{n}", labels=draw(st.sampled_from([{}, {"team": "a"}])), taints=draw(st.sampled_from([(), (DEDICATED,)]))
        )
        for n in range(draw(st.integers(0, 2)))
    ]
    return Problem(
        [pod for group in groups for pod in group],
        [draw(pools(f"pool-{n}")) for n in range(draw(st.integers(1, 3)))],
        some_nodes,
        daemons,
    )
