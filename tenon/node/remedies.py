"""What a person can do about a blocked node, and what happens if no one acts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tenon.kube.timestamps import time_text
from tenon.messages.node_steps import BlockedPods
from tenon.node.state import NodeState, Stage
from tenon.node.timeline import blocked_text

_SCALABLE = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})


def remedies(state: NodeState) -> list[str]:
    """Return the commands that unblock the node, the gentlest first; empty if the node is not blocked."""
    if not state.blocked:
        return []
    name = state.claim.name
    match state.stage:
        case Stage.DRAINING:
            return [*_for_pods(state.blocked.pods), _by_force(name, "deletes the pods at once, whatever protects them")]
        case Stage.DETACHING:
            show = f"`kubectl get volumeattachments` shows what is attached to {state.node_name}"
            return [show, _by_force(name, "continues without waiting for volumes")]
        case Stage.INITIALIZING | Stage.BINDING:
            return [
                f"`kubectl describe node {state.node_name}` shows its taints, conditions and resources",
                f"`tenon node drain {name}` gives the node up, and its pods are planned again",
            ]
        case Stage.REGISTERING:
            return [
                *_for_console(state),
                f"`tenon node drain {name}` gives the node up, and its pods are planned again",
            ]
        case Stage.TERMINATING if state.instance is not None:
            return [f"`aws ec2 describe-instances --instance-ids {state.instance.id}` shows why it does not end"]
        case _:
            return [f"`kubectl describe nodeclaim {name}` shows its events"]


def deadlines(state: NodeState) -> list[tuple[str, datetime]]:
    """Return what happens if no one acts and when, the soonest first."""
    instants: list[tuple[str, datetime]] = []
    if state.stage.leaving and state.force_at is not None and not (state.leave and state.leave.force):
        instants.append(("All pods are deleted, whatever protects them, by", state.force_at))
    if state.deadline is not None:
        text = "Given up, unless a Node has joined, at" if state.stage is Stage.REGISTERING else "Next attempt at"
        instants.append((text, state.deadline))
    timeout = state.initialization_timeout_seconds
    if state.stage is Stage.INITIALIZING and state.registered_at is not None and timeout is not None:
        instants.append(("Given up, unless initialized, at", state.registered_at + timedelta(seconds=timeout)))
    return sorted(instants, key=lambda item: item[1])


def report(state: NodeState) -> str:
    """Renders, as Markdown, what blocks the node, what unblocks it and what happens if no one acts; may be empty."""
    lines: list[str] = []
    if state.blocked:
        lines += ["#### Blocked", "", blocked_text(state), "", "What resolves it:", ""]
        lines += [f"- {remedy}" for remedy in remedies(state)]
    due = deadlines(state)
    if due:
        lines += ["", "#### If no one acts", ""]
        lines += [f"- {text} {time_text(instant)}" for text, instant in due]
        if state.stage is Stage.DRAINING and state.force_at is None:
            lines.append(
                "- It does not end by itself: without a terminationGracePeriod, Tenon tries for as long as needed"
            )
    return "\n".join(lines)


def _for_console(state: NodeState) -> list[str]:
    if state.instance is None:
        return []
    command = f"aws ec2 get-console-output --latest --output text --instance-id {state.instance.id}"
    return [f"`{command}` shows how the instance boots"]


def _by_force(name: str, effect: str) -> str:
    return f"`tenon node force-drain {name}` {effect}"


def _for_pods(blocked: Iterable[BlockedPods]) -> list[str]:
    """Return the commands for what holds single pods: replicas, budgets, annotations, then finalizers."""
    replicas, budgets, annotations, finalizers = [], [], [], []
    for blocked_pods in blocked:
        if blocked_pods.allowed_from:
            replicas.append(_with_replicas(blocked_pods))
        for full in blocked_pods.budgets:
            namespace, name = full.split("/", 1)
            command = f"kubectl edit poddisruptionbudget -n {namespace} {name}"
            budgets.append(f"relax PodDisruptionBudget {full}: `{command}`")
        for full in blocked_pods.pods:
            namespace, name = full.split("/", 1)
            if blocked_pods.annotation:
                command = f"kubectl annotate pod -n {namespace} {name} {blocked_pods.annotation}-"
                annotations.append(f"allow eviction of pod {full}: `{command}`")
            if blocked_pods.finalizers:
                patch = """--type=merge -p '{"metadata":{"finalizers":null}}'"""
                command = f"kubectl patch pod -n {namespace} {name} {patch}"
                finalizers.append(f"remove the finalizers of pod {full}: `{command}`")
    return list(dict.fromkeys([*replicas, *budgets, *annotations, *finalizers]))


def _with_replicas(blocked: BlockedPods) -> str:
    """Say with how many replicas a budget allows an eviction that keeps all that there are."""
    budget, most = blocked.budgets[0], blocked.allowed_from - 1
    kind, _, name = blocked.workload.partition("/")
    if kind not in _SCALABLE:
        return f"run more replicas: PodDisruptionBudget {budget} keeps {most}, so that of {most + 1} one may leave"
    sizes = f"--current-replicas={most} --replicas={most + 1}"  # refused if the budget is not of this workload alone
    command = f"kubectl scale {kind.lower()} -n {budget.partition('/')[0]} {name} {sizes}"
    return f"run more replicas, because PodDisruptionBudget {budget} keeps {most}: `{command}`"
