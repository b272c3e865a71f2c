"""Decides when a registered Node is ready for the pods it was bought for."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.apis import labels
from tenon.apis.nodeclaim import REBOOTING
from tenon.kube.conditions import condition, is_true
from tenon.kube.structs import Object
from tenon.kube.taints import parse_taints, taints_of
from tenon.kube.timestamps import parse_instant, time_text
from tenon.resources import parse_resources


@dataclass(frozen=True, slots=True)
class Initialization:
    """Whether the Node is initialized. If it is not, ``reason`` and ``message`` say what it waits for."""

    initialized: bool
    reason: str = ""
    message: str = ""


def initialization(claim: Object, node: Object) -> Initialization:
    """Check that the Node is Ready, has no startup or ephemeral taints, and publishes every requested resource."""
    name = node["metadata"]["name"]
    if is_true(claim, REBOOTING):  # the boot that the Node reports may be the one before
        return Initialization(False, REBOOTING, f"Node {name} reboots")
    ready = ready_condition(node)
    if ready.get("status") != "True":
        return Initialization(
            False, "NodeNotReady", f"Node {name} is not Ready{_since(ready)}: {_why_not_ready(ready)}"
        )
    present = parse_taints(taints_of(node))
    spec = claim.get("spec") or {}
    declared = {(taint.key, taint.effect) for taint in parse_taints(spec.get("startupTaints"))}
    startup_taints = [f"{taint.key}:{taint.effect}" for taint in present if (taint.key, taint.effect) in declared]
    if startup_taints:
        return Initialization(
            False,
            "StartupTaintsExist",
            f"Node {name} still has startup taints: {', '.join(startup_taints)}; "
            "the agent that they wait for must remove them",
        )
    ephemeral_taints = [
        f"{taint.key}:{taint.effect}, which {_remover(taint.key)} removes"
        for taint in present
        if labels.is_ephemeral_taint(taint.key, taint.effect)
    ]
    if ephemeral_taints:
        return Initialization(
            False, "KnownEphemeralTaintsExist", f"Node {name} still has taints: {'; '.join(ephemeral_taints)}"
        )
    absent = _unpublished(spec, node)
    if absent:
        return Initialization(
            False,
            "ResourceNotRegistered",
            f"Node {name} does not publish as allocatable yet: {', '.join(absent)}; check the device plugin",
        )
    return Initialization(True)


def ready_condition(node: Object) -> Object:
    """Return the Node's Ready condition as JSON; empty if its kubelet has never reported."""
    return condition(node, "Ready")


def _since(ready: Object) -> str:
    since = parse_instant(ready.get("lastTransitionTime"))
    return f" since {time_text(since)}" if since is not None else ""


def _why_not_ready(ready: Object) -> str:
    return str(ready.get("message") or ready.get("reason") or "its kubelet has not reported yet")


def _remover(taint: str) -> str:
    """Name the component that removes a taint of starting nodes, so that people know whose logs to read."""
    if taint == labels.UNREGISTERED_TAINT[0]:
        return "Tenon"
    if taint.startswith(labels.READINESS_TAINT_PREFIX):
        return "the controller of that readiness rule"
    if taint.startswith("node.cloudprovider.kubernetes.io/"):
        return "the cloud controller manager"
    return "the node lifecycle controller"


def _unpublished(spec: Object, node: Object) -> list[str]:
    """List the resources that the claim requests but the Node does not offer, with both amounts."""
    requests = (spec.get("resources") or {}).get("requests") or {}
    offered = (node.get("status") or {}).get("allocatable") or {}
    requested, allocatable = parse_resources(requests), parse_resources(offered)
    return [
        f"{name} (asked {requests[name]}, allocatable {offered.get(name, 'none')})"
        for name in sorted(requested)
        if requested[name] > 0 and allocatable.get(name, 0) <= 0
    ]
