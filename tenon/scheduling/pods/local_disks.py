"""Holds waiting pods to the node that has their local volumes, and says which of these nodes are gone.

A PersistentVolume on a disk of one machine names that machine. While it is a node of the cluster, kube-scheduler places
the pod on no other, so another node would be bought in vain. Once it is gone or leaving, the pod may have any node, as
in Karpenter: whatever deletes the claim of the lost disk finds the node there. That holds for a pod that must leave its
node too, otherwise its volume would keep the node forever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod import LocalDisk, Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.model import Node, Plan, Problem
from tenon.scheduling.pods.pod_classes import combined


def on_their_hosts(problem: Problem, plan_of: Callable[[Problem], Plan]) -> Plan:
    """Return the plan in which waiting pods use no node but the one that has their disk, while that is there."""
    if not any(pod.local_disks for pod in problem.pods):
        return plan_of(problem)
    hosts = _hosts(problem.nodes)
    bound_to_disks = {pod.key: pod for pod in problem.pods if _disks_there(pod, hosts)}
    plan = plan_of(
        replace(problem, pods=[_held(pod, hosts) if pod.key in bound_to_disks else pod for pod in problem.pods])
    )
    reasons = {key: _reason(pod, hosts) for key, pod in bound_to_disks.items() if key in plan.unschedulable}
    placements = {
        name: tuple(bound_to_disks.get(pod.key, pod) for pod in pods) for name, pods in plan.placements.items()
    }
    return replace(plan, placements=placements, unschedulable={**plan.unschedulable, **reasons})


def lost_disks(problem: Problem) -> dict[str, str]:
    """By key of a waiting pod: why kube-scheduler does not place it yet, because the machine with its disk is gone."""
    pods_with_disks = [pod for pod in problem.pods if pod.local_disks and not pod.node_name]
    hosts = _hosts(problem.nodes) if pods_with_disks else frozenset()
    unreachable_disks = (
        (pod.key, next((disk for disk in pod.local_disks if not disk.hosts & hosts), None)) for pod in pods_with_disks
    )
    return {key: _lost(disk) for key, disk in unreachable_disks if disk is not None}


def _hosts(nodes: Sequence[Node]) -> frozenset[str]:
    """The host names of the nodes that stay."""
    return frozenset(node.labels.get(labels.HOSTNAME, node.name) for node in nodes if not node.closed)


def _disks_there(pod: Pod, hosts: frozenset[str]) -> list[LocalDisk]:
    return [] if pod.node_name else [disk for disk in pod.local_disks if disk.hosts & hosts]


def _held(pod: Pod, hosts: frozenset[str]) -> Pod:
    host_requirements = (Requirement.new(labels.HOSTNAME, IN, disk.hosts & hosts) for disk in _disks_there(pod, hosts))
    only = Requirements.of(*host_requirements)
    return replace(pod, volume_terms=combined(pod.volume_terms or (Requirements(),), (only,)))


def _reason(pod: Pod, hosts: frozenset[str]) -> NoPlace:
    disk = _disks_there(pod, hosts)[0]
    return NoPlace.of(
        f"{_where(disk, disk.hosts & hosts)}, which cannot take the pod now: make room there, or delete the claim "
        f"{disk.claim} and create it again if the data may be lost"
    )


def _lost(disk: LocalDisk) -> str:
    return (
        f"{_where(disk, disk.hosts)}, which is gone or leaving: kube-scheduler places the pod only after the claim "
        f"{disk.claim} has been deleted and created again"
    )


def _where(disk: LocalDisk, hosts: frozenset[str]) -> str:
    return f"its local volume {disk.volume} is on Node {' or '.join(sorted(hosts))}"
