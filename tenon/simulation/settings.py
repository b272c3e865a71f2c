"""Settings of the autoscaler as a simulation takes them: those that bear on a plan, and a word on the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tenon.simulation.faults import Fault, Source

CHOICES: dict[str, tuple[str, ...]] = {
    "PREFERENCE_POLICY": ("Respect", "Ignore"),
    "MIN_VALUES_POLICY": ("Strict", "BestEffort"),
}
"""Settings that a plan depends on, with their values; the first is the default."""
UNFOLLOWED = frozenset({"MIN_VALUES_POLICY"})
"""Settings whose other values the engine does not know yet."""
_WITHOUT_EFFECT = """
BATCH_MAX_DURATION BATCH_IDLE_DURATION IGNORE_DRA_REQUESTS SCHEDULER_CONFIG FEATURE_GATES KUBE_CLIENT_QPS
KUBE_CLIENT_BURST METRICS_PORT HEALTH_PROBE_PORT ENABLE_PROFILING DISABLE_LEADER_ELECTION LEADER_ELECTION_NAME
LEADER_ELECTION_NAMESPACE DISABLE_CONTROLLER_WARMUP DISABLE_CLUSTER_STATE_OBSERVABILITY CPU_REQUESTS MEMORY_LIMIT
LOG_LEVEL LOG_OUTPUT_PATHS LOG_ERROR_OUTPUT_PATHS KARPENTER_SERVICE CLUSTER_NAME CLUSTER_ENDPOINT CLUSTER_CA_BUNDLE
ISOLATED_VPC EKS_CONTROL_PLANE VM_MEMORY_OVERHEAD_PERCENT INTERRUPTION_QUEUE RESERVED_ENIS DISABLE_DRY_RUN
ENABLE_ZONAL_SHIFT AMI_REFRESH_INTERVAL SUBNET_REFRESH_INTERVAL AWS_FEATURE_GATES
"""
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())
"""Settings of a worker that change no plan made from files."""


@dataclass(frozen=True)
class PlanSettings:
    """The settings that a plan depends on, by name."""

    values: dict[str, str] = field(default_factory=lambda: {name: kinds[0] for name, kinds in CHOICES.items()})


def read_settings(texts: Iterable[str]) -> tuple[PlanSettings, list[Fault], list[str]]:
    """The settings of ``NAME=VALUE`` texts, what is wrong with them, and notes on those without effect."""
    settings, faults, notes = PlanSettings(), [], []
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().upper().replace("-", "_")
        source = Source(f"--set {text}")
        if not equals:
            faults.append(Fault(source, "is not NAME=VALUE"))
        elif name in CHOICES:
            if value not in CHOICES[name]:
                faults.append(Fault(source, f"{name} is one of {', '.join(CHOICES[name])}"))
            elif name in UNFOLLOWED and value != CHOICES[name][0]:
                notes.append(f"setting {name}={value} is not followed yet: the plan is made with {CHOICES[name][0]}")
            settings.values[name] = value
        elif name in WITHOUT_EFFECT:
            notes.append(f"setting {name} has no effect on a simulation")
        else:
            faults.append(Fault(source, f"there is no setting {name[:80]}"))
    return settings, faults, notes
