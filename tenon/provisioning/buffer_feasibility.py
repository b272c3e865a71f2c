"""Which CapacityBuffers no plan will ever find room for, so that who waits for the room can give up (N15-303).

A buffer that lacks room may get it later: when EC2 has capacity again, when a limit is raised, when a place in a
reservation is free. If its pods still fit nowhere without all of these, only a change of a NodePool, an EC2NodeClass or
the buffer helps. Kueue, for example, then rejects the workload and gives its quota to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import InstanceType, Offering, Pool, Problem


def one_pod_of_each(pods: Iterable[Pod], buffers: Iterable[str]) -> list[Pod]:
    """Return one pod of each of these buffers, because the pods of a buffer are alike."""
    first: dict[str, Pod] = {}
    for pod in pods:
        first.setdefault(pod.buffer, pod)
    return [first[buffer] for buffer in sorted(set(buffers) & first.keys())]


def infeasible(problem: Problem, pods: Sequence[Pod], expired: Expired = never) -> Mapping[str, str]:
    """Return why pods of buffers can never have a node, by buffer. Buffers that may have one later are missing.

    Args:
        problem: the cluster with all NodePools that could launch nodes, and all types that these could ever have.
        pods: one pod of each buffer.
        expired: becomes true when there is no more time; then only what is known by then is returned.
    """
    unlimited = replace(problem, pods=pods, pools=[_unlimited(pool) for pool in problem.pools])
    plan = solve_with_buffers(unlimited, expired)
    return {pod.buffer: str(plan.unschedulable[pod.key]) for pod in pods if pod.key in plan.unschedulable}


def _unlimited(pool: Pool) -> Pool:
    """The pool without limits, and with a free place in each of its reservations."""
    return replace(pool, limits=None, instance_types=[_free(kind) for kind in pool.instance_types])


def _free(kind: InstanceType) -> InstanceType:
    if all(offering.capacity_type != labels.RESERVED for offering in kind.offerings):
        return kind
    return replace(kind, offerings=tuple(map(_with_a_place, kind.offerings)))


def _with_a_place(offering: Offering) -> Offering:
    if offering.capacity_type != labels.RESERVED:
        return offering
    return replace(offering, reservation_capacity=max(1, offering.reservation_capacity))
