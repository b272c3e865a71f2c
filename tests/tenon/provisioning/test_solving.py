"""Pods and the room of CapacityBuffers in one batch (CB-07, SCH-006): a buffer never costs a pod its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tenon.kube.pod import Pod
from tenon.provisioning.solving import BatchSolver, buffer_pods, solve_with_buffers
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Plan
from tenon.scheduling.offerings import type_table
from tests.tenon.scheduling.between_pods import domains, near, on_each, spread, web
from tests.tenon.scheduling.builders import node, pod, pool, problem, replicas


def standing(count: int, cpu: str = "1", buffer: str = "default/spare") -> list[Pod]:
    """Pods of a buffer."""
    return [
        replace(replica, buffer=buffer) for replica in replicas(count, cpu, prefix=f"b-{buffer.rpartition('/')[2]}")
    ]


def kept(plan: Plan) -> dict[str, int]:
    """By node, for how many pods of buffers there is room; those to buy are counted under an empty name."""
    placements = {name: len(buffer_pods(pods).get("default/spare", [])) for name, pods in plan.placements.items()}
    bought = sum(len(buffer_pods(claim.pods).get("default/spare", [])) for claim in plan.claims)
    return {name: count for name, count in {**placements, "": bought}.items() if count}


def test_without_buffers_it_is_the_engines_own_plan() -> None:
    requests = problem([pod("a"), pod("b", cpu="8")], pool(), nodes=[node()])
    assert solve_with_buffers(requests) == solve(requests)


def test_a_buffer_uses_the_room_that_is_there_and_buys_the_rest() -> None:
    plan = solve_with_buffers(problem(standing(6), pool(), nodes=[node(cpu="4")]))
    assert kept(plan) == {"n": 4, "": 2}


def test_pods_take_existing_room_before_buffers_do() -> None:
    """The pods that wait would otherwise wait for a new node, with room for them before their eyes."""
    waiting = replicas(3, prefix="z")
    plan = solve_with_buffers(problem([*standing(3), *waiting], pool(), nodes=[node(cpu="4")]))
    assert {item.key for item in plan.placements["n"]} >= {item.key for item in waiting}
    assert kept(plan) == {"n": 1, "": 2}


def test_new_nodes_are_sized_for_pods_and_buffers_together() -> None:
    plan = solve_with_buffers(problem([pod("a", cpu="3"), *standing(3)], pool()))
    assert len(plan.claims) == 1
    assert kept(plan) == {"": 3}


def test_limits_that_leave_room_for_the_pod_alone_keep_the_buffer_waiting() -> None:
    plan = solve_with_buffers(problem([pod("a", cpu="3"), *standing(2, cpu="3")], pool(limits={"cpu": "4"})))
    assert [pod.key for claim in plan.claims for pod in claim.pods] == ["default/a"]
    assert all("limit leaves no room" in str(why) for why in plan.unschedulable.values())
    assert len(plan.unschedulable) == 2


def test_a_pod_is_never_unschedulable_because_of_a_buffer() -> None:
    """Packed together, the buffer's larger pods would come first and use the limit up."""
    waiting = replicas(4, prefix="z")
    plan = solve_with_buffers(problem([*standing(4, cpu="3"), *waiting], pool(limits={"cpu": "8"})))
    assert {pod.key for claim in plan.claims for pod in claim.pods} == {item.key for item in waiting}
    assert plan.unschedulable.keys() == {pod.key for pod in standing(4)}
    assert all("its limit leaves no room" in str(why) for why in plan.unschedulable.values())


def test_a_pod_that_fits_nowhere_and_a_buffer_that_does_are_distinguished() -> None:
    plan = solve_with_buffers(problem([pod("huge", cpu="5000"), *standing(1)], pool()))
    assert list(plan.unschedulable) == ["default/huge"]
    assert kept(plan) == {"": 1}


def test_a_pod_that_exists_is_not_taken_for_the_buffers() -> None:
    twin = replace(standing(1)[0], buffer="", uid="real")
    plan = solve_with_buffers(problem([twin, *standing(1)], pool()))
    assert [pod.uid for claim in plan.claims for pod in claim.pods] == ["real"]


@pytest.mark.parametrize("standing_by", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("waiting", [2, 3, 4, 8])
@pytest.mark.parametrize("prefix", ["a", "z"])
def test_cb07_pods_are_spread_as_if_there_were_no_buffers_of_their_kind(
    waiting: int, standing_by: int, prefix: str
) -> None:
    """kube-scheduler knows no buffer: what is bought where only the sum is even, the pods that it is for cannot use."""
    pods = web(waiting, spread(), prefix)
    changed_items = [
        replace(item, buffer="default/spare") for item in web(standing_by, spread(), "capacity-buffer-spare")
    ]
    plan = solve_with_buffers(problem([*pods, *changed_items], pool()))
    assert plan.unschedulable == {}
    assert kept(plan) == {"": standing_by}
    assert domains(plan, prefix=prefix + "-") == domains(solve(problem(pods, pool())), prefix=prefix + "-")
    assert {pod.uid: pod for claim in plan.claims for pod in claim.pods} == {
        pod.uid: pod for pod in (*pods, *changed_items)
    }


def test_a_pod_is_not_promised_a_node_that_only_a_buffer_would_open_to_it() -> None:
    """It may run next to web only, and there is no web but in the buffer's imagination."""
    follower = pod("follower", rules=near())
    changed_items = [
        replace(replica, buffer="default/spare") for replica in replicas(2, labels={"app": "web"}, prefix="b")
    ]
    plan = solve_with_buffers(problem([follower, *changed_items], pool(), nodes=[node(cpu="2")]))
    assert list(plan.unschedulable) == ["default/follower"]


def test_a_node_in_the_zone_that_is_full_by_the_rules_is_not_promised() -> None:
    """One of web is in zone a: the next goes to another, however many of web the buffer dreams of there."""
    present_items = node(cpu="4", pods=web(1, spread(), "there"), used={"cpu": 1000})
    changed_items = [replace(item, buffer="default/spare") for item in web(5, spread(), "b")]
    plan = solve_with_buffers(problem([*web(1, spread(), "next"), *changed_items], pool(), nodes=[present_items]))
    assert "us-west-2a" not in domains(plan, prefix="next-")
    assert on_each(plan, prefix="next-") == [1]


def test_batches_with_the_same_instance_types_share_their_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of a few pods takes most of its time for the index."""
    indexed = []
    index = type_table.TypeTable.__init__

    def counted(self: type_table.TypeTable, types: Sequence[InstanceType], names: tuple[str, ...]) -> None:
        indexed.append(names)
        index(self, types, names)

    monkeypatch.setattr(type_table.TypeTable, "__init__", counted)
    solver, present_items = BatchSolver(), pool()
    plans = [solver(problem(replicas(3), present_items)) for _ in range(2)]
    on_existing = solver(problem([pod("a", cpu="1")], present_items, nodes=[node(cpu="4")]))
    plans.append(solver(problem(replicas(3), present_items)))
    assert on_existing.claims == ()
    assert len(indexed) == 1
    assert plans[0] == plans[1] == plans[2]
