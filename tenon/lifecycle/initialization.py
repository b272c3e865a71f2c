"""When a registered Node is ready for the pods it was bought for."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.apis import labels
from tenon.lifecycle import pods
from tenon.lifecycle.pods import Object
from tenon.resources import parse_resources


@dataclass(frozen=True, slots=True)
class Verdict:
    """Initialized, or the reason and the sentence that say what is awaited."""

    initialized: bool
    reason: str = ""
    message: str = ""


def initialization(claim: Object, node: Object) -> Verdict:
    """Whether the Node is initialized: Ready, free of starting taints, with every requested resource published."""
    name = node["metadata"]["name"]
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), "Unknown")
    if ready != "True":
        return Verdict(False, "NodeNotReady", f"Node {name} is not Ready")
    present = pods.taints((node.get("spec") or {}).get("taints"))
    spec = claim.get("spec") or {}
    startup = {(taint.key, taint.effect) for taint in pods.taints(spec.get("startupTaints"))}
    left = [f"{taint.key}:{taint.effect}" for taint in present if (taint.key, taint.effect) in startup]
    if left:
        return Verdict(False, "StartupTaintsExist", f"Node {name} still has startup taints: {', '.join(left)}")
    left = [f"{taint.key}:{taint.effect}" for taint in present if labels.is_ephemeral_taint(taint.key, taint.effect)]
    if left:
        return Verdict(False, "KnownEphemeralTaintsExist", f"Node {name} still has taints: {', '.join(left)}")
    requested = parse_resources((spec.get("resources") or {}).get("requests"))
    allocatable = parse_resources((node.get("status") or {}).get("allocatable"))
    absent = sorted(name for name, units in requested.items() if units > 0 and allocatable.get(name, 0) <= 0)
    if absent:
        return Verdict(
            False, "ResourceNotRegistered", f"Node {name} does not publish {', '.join(absent)} as allocatable yet"
        )
    return Verdict(True)
