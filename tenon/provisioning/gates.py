"""Feature gates: which of the features that Karpenter keeps behind a gate are on, in the format of FEATURE_GATES.

Names and defaults are Karpenter's. A removed gate is ignored with a note, so that an old value still starts a worker.
An unknown gate that is true is refused, because its author expects it to have an effect. One that is false is ignored
with a note, because a newer Karpenter's Deployment names every gate that it has.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """FEATURE_GATES. Every field but the last is the gate of the same name in Karpenter."""

    node_repair: bool = False
    reserved_capacity: bool = True
    spot_to_spot_consolidation: bool = False
    node_overlay: bool = False
    static_capacity: bool = False
    capacity_buffer: bool = False
    terminate_first_drift: bool = False
    terminate_first_repair: bool = False
    pod_deletion_cost_management: bool = False
    vpa_predictions: bool = False

    def __str__(self) -> str:
        """Format all gates as FEATURE_GATES does."""
        return _text(self, GATES)


@dataclass(frozen=True, slots=True)
class AwsFeatureGates:
    """AWS_FEATURE_GATES."""

    node_class_cel: bool = False
    dra_nvidia_gpu: bool = False
    dra_efa: bool = False
    reboot_for_repair: bool = False

    def __str__(self) -> str:
        """Format all gates as AWS_FEATURE_GATES does."""
        return _text(self, AWS_GATES)


GATES: Mapping[str, str] = {
    "NodeRepair": "node_repair",
    "ReservedCapacity": "reserved_capacity",
    "SpotToSpotConsolidation": "spot_to_spot_consolidation",
    "NodeOverlay": "node_overlay",
    "StaticCapacity": "static_capacity",
    "CapacityBuffer": "capacity_buffer",
    "TerminateFirstDrift": "terminate_first_drift",
    "TerminateFirstRepair": "terminate_first_repair",
    "PodDeletionCostManagement": "pod_deletion_cost_management",
    "VPAPredictions": "vpa_predictions",
}
"""Karpenter's name of each gate, and the field that holds it. VPAPredictions is Tenon's own, because Karpenter 1.15 has
code for it that nothing runs.
"""
AWS_GATES: Mapping[str, str] = {
    "NodeClassCEL": "node_class_cel",
    "DRANVIDIAGPU": "dra_nvidia_gpu",
    "DRAEFA": "dra_efa",
    "RebootForRepair": "reboot_for_repair",
}
MEANINGS: Mapping[str, str] = {
    "NodeRepair": "Replace nodes that stay unhealthy.",
    "ReservedCapacity": "Use places in capacity reservations before spot and on-demand.",
    "SpotToSpotConsolidation": "Replace spot nodes by cheaper spot nodes.",
    "NodeOverlay": "Let NodeOverlays change prices and capacities of instance types.",
    "StaticCapacity": "Keep the nodes that NodePools with spec.replicas ask for.",
    "CapacityBuffer": "Keep room free for pods to come, as CapacityBuffers ask.",
    "TerminateFirstDrift": "Terminate a drifted node before its replacement starts if no capacity is left.",
    "TerminateFirstRepair": "Terminate an unhealthy node before its replacement starts if no capacity is left.",
    "PodDeletionCostManagement": "Set pod deletion costs, so that ReplicaSets scale down on nodes that should leave.",
    "VPAPredictions": "Plan pods with the requests that their VerticalPodAutoscaler gives them.",
    "DRANVIDIAGPU": "Launch NVIDIA GPU instances for pods with resource claims.",
    "DRAEFA": "Launch instances with Elastic Fabric Adapters for pods with resource claims.",
    "RebootForRepair": "Reboot a node to repair a fault that a reboot clears.",
    "NodeClassCEL": "Read expressions in the kubelet settings of EC2NodeClasses.",
}


REMOVED: Mapping[str, str] = {
    "Drift": "drift is always on since Karpenter 1.0",
}
"""Removed gates, and what applies instead."""


def _check_complete() -> None:
    """Refuse at import a gate that no one could set, or that no document explains."""
    for gates, names in ((FeatureGates, GATES), (AwsFeatureGates, AWS_GATES)):
        if differing := {field.name for field in fields(gates)} ^ set(names.values()):
            raise TypeError(f"{min(differing)} must be a field of {gates.__name__} and a value of its table of gates")
    if differing := {*GATES, *AWS_GATES} ^ set(MEANINGS):
        raise TypeError(f"the gate {min(differing)} must be in a table of gates and in MEANINGS")


_check_complete()

Gates = TypeVar("Gates", FeatureGates, AwsFeatureGates)


def parse_feature_gates(text: str) -> tuple[FeatureGates, tuple[str, ...]]:
    """Parse FEATURE_GATES into the gates, and a note on each gate that is removed, or unknown and false.

    Raises:
        ValueError: one sentence that names every invalid part.
    """
    return _parse(FeatureGates(), text, GATES, REMOVED)


def parse_aws_feature_gates(text: str) -> tuple[AwsFeatureGates, tuple[str, ...]]:
    """Parse AWS_FEATURE_GATES.

    Raises:
        ValueError: one sentence that names every invalid part.
    """
    return _parse(AwsFeatureGates(), text, AWS_GATES, {})


def named_gates(text: str) -> frozenset[str]:
    """Return the gates that are named in the text of either setting. The others have their defaults."""
    return frozenset(name for _, name, _, _ in _parts(text))


def _parse(
    default: Gates, text: str, known_gates: Mapping[str, str], removed: Mapping[str, str]
) -> tuple[Gates, tuple[str, ...]]:
    values = {gate.name: getattr(default, gate.name) for gate in fields(default)}
    notes, faults = [], []
    for part, name, equals, value in _parts(text):
        if not equals:
            faults.append(f"{part!r} is not Gate=true or Gate=false")
        elif name not in known_gates and name not in removed and value in _FALSE and _is_name(name):
            notes.append(f"The feature gate {name} is unknown and ignored. It is false, so nothing changes.")
        elif name not in known_gates and name not in removed:
            faults.append(f"unknown feature gate {name!r}: {_suggestion(name, list(known_gates))}")
        elif value not in _TRUE | _FALSE:
            faults.append(f"the gate {name} must be true or false, not {value!r}")
        elif name in removed:
            notes.append(f"The feature gate {name} no longer exists: {removed[name]}.")
        else:
            values[known_gates[name]] = value in _TRUE
    if faults:
        raise ValueError("; ".join(faults))
    return type(default)(**values), tuple(notes)


def _parts(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield each non-empty part: the whole part, the gate's name, the equals sign if there is one, and the value."""
    for part in (part.strip() for part in text.split(",")):
        if part:
            name, equals, value = (piece.strip() for piece in part.partition("="))
            yield part, name, equals, value


def _is_name(name: str) -> bool:
    return name.isascii() and name.isalnum()


def _suggestion(name: str, known_names: Sequence[str]) -> str:
    """Suggest what an unknown name may stand for."""
    lower = {known_name.lower(): known_name for known_name in known_names}
    near = difflib.get_close_matches(name.lower(), list(lower), n=1)
    return f"did you mean {lower[near[0]]}" if near else f"the gates are {', '.join(known_names)}"


def _text(gates: FeatureGates | AwsFeatureGates, known_gates: Mapping[str, str]) -> str:
    return ",".join(f"{name}={str(getattr(gates, field)).lower()}" for name, field in known_gates.items())
