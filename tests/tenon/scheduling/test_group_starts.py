"""A group of pods with affinity to each other starts where all of them can go, whatever their names are (SCH-063)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, Plan, Pool
from tests.tenon.scheduling.between_pods import away, chosen
from tests.tenon.scheduling.builders import (
    ZONES,
    catalog,
    entry,
    need,
    node,
    ordinary_entries,
    pod,
    pool,
    problem,
    replicas,
)

A, B, C = ZONES
HOST = labels.HOSTNAME
GPU = "nvidia.com/gpu"
JOB = {"job": "t"}
TYPES = catalog(*ordinary_entries(), entry("g5.4xlarge", 16, 64, 2.0, zones=[B], capacity={GPU: "1"}))
NAMES = pytest.mark.parametrize(("free", "bound"), [("a", "z"), ("z", "a")])


def near(key: str = labels.ZONE) -> PodRules:
    """Required affinity to pods of the job."""
    return PodRules(affinity=(PodTerm(key, chosen(job="t")),))


def member(name: str, *needs: Requirement, key: str = labels.ZONE, cpu: str = "1", **more: object) -> Pod:
    """A pod of the job that wants to be near the job."""
    terms = (Requirements.of(*needs),) if needs else ()
    return pod(name, cpu, "1Gi", *terms, labels=JOB, rules=near(key), **more)


def placed_in(plan: Plan) -> set[tuple[str, ...]]:
    return {claim.requirements.get(labels.ZONE).values for claim in plan.claims}


@NAMES
def test_sch063_a_group_starts_in_the_zone_that_sells_the_gpu_of_one_of_its_pods(free: str, bound: str) -> None:
    plan = solve(problem([member(free, cpu="5"), member(bound, extra={GPU: 1})], pool(types=TYPES)))
    assert not plan.unschedulable
    assert placed_in(plan) == {(B,)}


@NAMES
def test_sch063_a_group_starts_in_the_zone_of_a_bound_volume(free: str, bound: str) -> None:
    on_volume = member(bound, volume_terms=(Requirements.of(need(labels.ZONE, "In", C)),))
    plan = solve(problem([member(free), on_volume], pool(types=TYPES)))
    assert not plan.unschedulable
    assert placed_in(plan) == {(C,)}


@NAMES
def test_sch063_a_group_starts_in_the_zone_that_a_selector_names(free: str, bound: str) -> None:
    plan = solve(problem([member(free), member(bound, need(labels.ZONE, "In", B))], pool(types=TYPES)))
    assert not plan.unschedulable
    assert placed_in(plan) == {(B,)}


@NAMES
@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_sch063_a_group_of_one_node_gets_the_architecture_of_its_strictest_pod(
    free: str, bound: str, arch: str
) -> None:
    either = member(free, need(labels.ARCH, "In", "amd64", "arm64"), key=HOST)
    plan = solve(problem([either, member(bound, need(labels.ARCH, "In", arch), key=HOST)], pool(types=TYPES)))
    assert not plan.unschedulable
    assert [claim.requirements.get(labels.ARCH).values for claim in plan.claims] == [(arch,)]


@NAMES
def test_sch063_a_group_of_one_node_starts_in_the_pool_that_holds_all_of_it(free: str, bound: str) -> None:
    pools = (pool("cpu", types=catalog(*ordinary_entries()), weight=10), pool("gpu", types=TYPES))
    plan = solve(problem([member(free, key=HOST), member(bound, key=HOST, extra={GPU: 1})], *pools))
    assert not plan.unschedulable
    assert [claim.pool for claim in plan.claims] == ["gpu"]


@NAMES
def test_sch063_a_group_of_one_node_starts_on_a_node_that_all_of_it_tolerates(free: str, bound: str) -> None:
    tainted = pool("tainted", types=TYPES, weight=10, taints=(Taint("x", "", "NoSchedule"),))
    anywhere = replace(member(free, key=HOST), tolerations=(Toleration("x", "Exists", "", ""),))
    plan = solve(problem([anywhere, member(bound, key=HOST)], tainted, pool("plain", types=TYPES)))
    assert not plan.unschedulable
    assert [claim.pool for claim in plan.claims] == ["plain"]


@NAMES
def test_sch063_a_group_starts_on_the_existing_node_that_all_of_it_can_use(free: str, bound: str) -> None:
    nodes = [node("first"), node("second", labels={labels.ZONE: C})]
    plan = solve(problem([member(free), member(bound, need(labels.ZONE, "In", C))], pool(types=TYPES), nodes=nodes))
    assert {name: len(pods) for name, pods in plan.placements.items()} == {"second": 2}


@NAMES
def test_sch063_a_group_keeps_out_of_a_zone_that_anti_affinity_closes_to_one_pod(free: str, bound: str) -> None:
    shy = replace(member(bound), rules=replace(near(), anti_affinity=away(app="web").anti_affinity))
    present_items = node(
        "n", labels={labels.ZONE: A}, cpu="2", used={"cpu": 2000}, pods=replicas(1, labels={"app": "web"})
    )
    plan = solve(problem([member(free), shy], pool(types=TYPES), nodes=[present_items]))
    assert not plan.unschedulable
    assert A not in {zone for zones in placed_in(plan) for zone in zones}


@NAMES
def test_sch063_pods_that_others_follow_go_where_these_can_go(free: str, bound: str) -> None:
    follower = pod(bound, "1", "1Gi", Requirements.of(need(labels.ZONE, "In", C)), rules=near())
    plan = solve(problem([pod(free, labels=JOB), follower], pool(types=TYPES)))
    assert not plan.unschedulable
    assert placed_in(plan) == {(C,)}


@NAMES
def test_sch063_a_group_without_a_common_zone_places_as_many_pods_as_one_zone_takes(free: str, bound: str) -> None:
    pods = [member(f"{bound}-{number}", need(labels.ZONE, "In", B)) for number in range(3)]
    plan = solve(problem([member(free, cpu="2"), member("other", need(labels.ZONE, "In", A)), *pods], pool()))
    assert set(plan.unschedulable) == {"default/other"}


@pytest.mark.parametrize("nodes", [[], [node("n")]], ids=["new", "existing"])
def test_sch063_pods_that_no_node_holds_do_not_keep_others_from_a_zone(nodes: Sequence[Node]) -> None:
    """The first pod of both groups needs a settled zone, or the pod that must share its zone has no place."""
    too_large = replicas(2, "200", prefix="large", rules=near(HOST))
    follower = pod("follower", rules=near())
    plan = solve(problem([pod("first", labels=JOB), *too_large, follower], pool(types=TYPES), nodes=nodes))
    assert set(plan.unschedulable) == {"default/large-0", "default/large-1"}


@pytest.mark.parametrize("nodes", [[], [node("n")]], ids=["new", "existing"])
def test_sch053_sch063_pods_count_in_the_zone_of_their_node_wherever_their_group_starts(nodes: Sequence[Node]) -> None:
    """The pods of zone b would follow into a zone that stays open, but the first pod is in zone a."""
    first = pod("first", "1", "1Gi", Requirements.of(need(labels.ZONE, "In", A)), labels=JOB)
    rules = replace(near(HOST), anti_affinity=away(app="web").anti_affinity)
    in_b = Requirements.of(need(labels.ZONE, "In", B))
    elsewhere = [pod(f"b-{number}", "1", "1Gi", in_b, rules=rules) for number in range(2)]
    follower = pod("follower", rules=near())
    plan = solve(problem([first, *elsewhere, follower], pool(types=TYPES), nodes=nodes))
    assert set(plan.unschedulable) == {"default/b-0", "default/b-1"}


@dataclass(frozen=True)
class Kind:
    """What a pod of the group asks for, apart from its affinity."""

    zones: tuple[str, ...] = ()
    arch: str = ""
    gpu: bool = False


KINDS = st.builds(
    Kind,
    st.sampled_from([(), (), (A,), (B,), (A, B), (B, C)]),
    st.sampled_from(["", "", "amd64", "arm64"]),
    st.booleans(),
)


@given(st.lists(KINDS, min_size=2, max_size=4), st.sampled_from([labels.ZONE, HOST]), st.permutations(range(4)))
def test_sch063_names_do_not_decide_whether_a_group_has_a_place(
    kinds: Sequence[Kind], key: str, names: Sequence[int]
) -> None:
    plan = solve(problem([_pod(kind, key, number) for kind, number in zip(kinds, names, strict=False)], _either()))
    assert bool(plan.unschedulable) is not _has_a_place(kinds, key)


def _either() -> Pool:
    return pool(types=TYPES)


def _pod(kind: Kind, key: str, number: int) -> Pod:
    needs = [need(labels.ZONE, "In", *kind.zones)] if kind.zones else []
    needs += [need(labels.ARCH, "In", kind.arch)] if kind.arch else []
    return member(f"p{number}", *needs, key=key, extra={GPU: 1} if kind.gpu else {})


def _has_a_place(kinds: Sequence[Kind], key: str) -> bool:
    """Whether one zone, or one node, takes all the pods. Only the GPU is scarce: one on a node, all in zone b."""

    def sold(zone: str, arch: str, gpu: bool) -> bool:
        return not gpu or (zone == B and arch == "amd64")

    def takes(kind: Kind, zone: str, arch: str) -> bool:
        return zone in (kind.zones or ZONES) and arch in (kind.arch or arch) and sold(zone, arch, kind.gpu)

    if key == HOST and sum(kind.gpu for kind in kinds) > 1:
        return False
    gpu = key == HOST and any(kind.gpu for kind in kinds)
    return any(
        all(any(takes(kind, zone, arch) for arch in arches) for kind in kinds)
        for zone in ZONES
        for arches in ([("amd64",), ("arm64",)] if key == HOST else [("amd64", "arm64")])
        if not gpu or arches == ("amd64",)
    )
