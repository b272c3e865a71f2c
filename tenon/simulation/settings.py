"""Parses the autoscaler's settings for a simulation: those that affect a plan, and notes on the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hourly_cost import MAX_DOLLARS
from tenon.ec2.types.capacity import InstanceReserve, NodeSettings
from tenon.ec2.types.settings import settings_of
from tenon.manifests.faults import ManifestError, Source
from tenon.provisioning.gates import AwsFeatureGates, FeatureGates, parse_aws_feature_gates, parse_feature_gates
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.scheduling.model import NODE_CHARGE


@dataclass(frozen=True, slots=True)
class ValidRange:
    """The valid range of a numeric setting."""

    least: float
    most: float
    default: float
    open_below: bool = False
    """True if ``least`` itself is not valid."""
    open_above: bool = False
    """True if ``most`` itself is not valid."""
    whole: bool = False

    def holds(self, number: float) -> bool:
        """True if the value is in the range."""
        inside = self.least <= number <= self.most and (number.is_integer() or not self.whole)
        return inside and not ((self.open_below and number == self.least) or (self.open_above and number == self.most))

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        least, most = "above" if self.open_below else "from", "below" if self.open_above else "up to"
        return f"{kind} {least} {self.least:g} {most} {self.most:g}"


CHOICES: dict[str, tuple[str, ...]] = {
    "PREFERENCE_POLICY": ("Respect", "Ignore"),
    "MIN_VALUES_POLICY": ("Strict", "BestEffort"),
}
"""Enumerated settings that affect a plan, with their values; the first is the default."""
NUMBERS = {
    "NODE_CHARGE": ValidRange(0, 1000, NODE_CHARGE),
    "MAX_WORKLOAD_SHARE_PER_NODE": ValidRange(0, 1, 1.0, open_below=True),
    "MAX_HOURLY_COST": ValidRange(0, MAX_DOLLARS, 0),
    "VM_MEMORY_OVERHEAD_PERCENT": ValidRange(0, 1, 0.075, open_above=True),
    "RESERVED_ENIS": ValidRange(0, 1000, 0, whole=True),
}
"""Numeric settings that affect a plan."""
GATES = "FEATURE_GATES"
"""Decides which objects of a live cluster are read, and whether unhealthy nodes are repaired."""
GATES_OF_AWS = "AWS_FEATURE_GATES"
"""Decides whether EC2NodeClasses may contain expressions, and whether a repair reboots nodes."""
SPREAD = "SCHEDULER_CONFIG"
"""A document or its path. It sets the default topology spread of pods without constraints."""
CA_BUNDLE = "CLUSTER_CA_BUNDLE"
"""The cluster's certificate authority. It decides whether nodes drifted from their EC2NodeClass."""
COMMITMENTS = "ENABLE_COMMITMENTS"
"""Decides whether Reserved Instances and Savings Plans are read of the account of a live cluster."""
SWITCH = ("false", "true")
_WITHOUT_EFFECT_ON_PLANS = """
BATCH_MAX_DURATION BATCH_IDLE_DURATION IGNORE_DRA_REQUESTS KUBE_CLIENT_QPS
KUBE_CLIENT_BURST METRICS_PORT HEALTH_PROBE_PORT ENABLE_PROFILING DISABLE_LEADER_ELECTION LEADER_ELECTION_NAME
LEADER_ELECTION_NAMESPACE STAND_BY_NAMESPACES DISABLE_CONTROLLER_WARMUP
DISABLE_CLUSTER_STATE_OBSERVABILITY CPU_REQUESTS MEMORY_LIMIT
LOG_LEVEL LOG_OUTPUT_PATHS LOG_ERROR_OUTPUT_PATHS RECORD_SINKS KARPENTER_SERVICE CLUSTER_NAME CLUSTER_ENDPOINT
ISOLATED_VPC PRICE_TABLE EKS_CONTROL_PLANE INTERRUPTION_QUEUE DISABLE_DRY_RUN
ENABLE_ZONAL_SHIFT AMI_REFRESH_INTERVAL SUBNET_REFRESH_INTERVAL
SECURITY_GROUP_REFRESH_INTERVAL INSECURE_CALENDARS LEGACY_NODE_REPAIR
COST_INTERVAL GARBAGE_COLLECTION_INTERVAL INITIALIZATION_TIMEOUT WATCH_SILENCE_LIMIT DEFAULT_INSTANCE_PROFILE
DEFAULT_TAGS DISABLE_WEBHOOK WEBHOOK_PORT WEBHOOK_URL PAYLOAD_ENCRYPTION_CONFIG
WORKER_VERSIONING WORKER_VERSION_RAMP
"""
WITHOUT_EFFECT_ON_PLANS = frozenset(_WITHOUT_EFFECT_ON_PLANS.split())
"""Worker settings that do not affect a plan made from files."""

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")


@dataclass(frozen=True)
class PlanSettings:
    """The settings that affect a plan, by name."""

    values: dict[str, str] = field(default_factory=lambda: {name: kinds[0] for name, kinds in CHOICES.items()})
    numbers: dict[str, float] = field(default_factory=lambda: {name: span.default for name, span in NUMBERS.items()})
    other_values: dict[str, str] = field(default_factory=dict)
    """Settings that do not affect the plan itself but affect the simulation."""

    def gates(self) -> FeatureGates:
        """Feature gates, which decide which kinds of a live cluster are read."""
        return parse_feature_gates(self.other_values.get(GATES, ""))[0]

    def aws_gates(self) -> AwsFeatureGates:
        """AWS feature gates, which decide what EC2NodeClasses may contain."""
        return parse_aws_feature_gates(self.other_values.get(GATES_OF_AWS, ""))[0]

    @property
    def uses_commitments(self) -> bool:
        """Whether plans use what Reserved Instances and Savings Plans cover."""
        return self.other_values.get(COMMITMENTS) == "true"

    @property
    def scheduler_config(self) -> str:
        """A kube-scheduler configuration or its path; empty if not set."""
        return self.other_values.get(SPREAD, "")

    @property
    def ca_bundle(self) -> str:
        """The cluster's certificate authority; empty if not set."""
        return self.other_values.get(CA_BUNDLE, "")

    def node_settings(self, node_class: EC2NodeClass) -> NodeSettings:
        """What a class and the settings say about the resources of its nodes."""
        memory_share = Decimal(str(self.numbers["VM_MEMORY_OVERHEAD_PERCENT"]))
        return settings_of(node_class, InstanceReserve(memory_share, int(self.numbers["RESERVED_ENIS"])))

    def policy(self) -> PlanPolicy:
        """The settings in the form that the planner takes."""
        return PlanPolicy(
            ignore_preferences=self.values["PREFERENCE_POLICY"] == "Ignore",
            min_values_best_effort=self.values["MIN_VALUES_POLICY"] == "BestEffort",
            node_charge=self.numbers["NODE_CHARGE"],
            most_pods_share=self.numbers["MAX_WORKLOAD_SHARE_PER_NODE"],
            max_hourly_cost=self.numbers["MAX_HOURLY_COST"],
        )


def read_settings(texts: Iterable[str]) -> tuple[PlanSettings, list[ManifestError], list[str]]:
    """Parse ``NAME=VALUE`` texts. Return the settings, the faults, and notes on settings without effect."""
    settings = PlanSettings()
    faults: list[ManifestError] = []
    notes: list[str] = []
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip().upper().replace("-", "_"), value.strip()
        wrong = ""
        if not equals:
            wrong = "is not NAME=VALUE"
        elif name in CHOICES:
            settings.values[name] = value
            if value not in CHOICES[name]:
                wrong = f"{name} must be one of {', '.join(CHOICES[name])}"
        elif name in NUMBERS:
            number = float(value) if _NUMBER.fullmatch(value) else None
            if number is None or not NUMBERS[name].holds(number):
                wrong = f"{name} must be {NUMBERS[name]}"
            else:
                settings.numbers[name] = number
        elif name in (GATES, GATES_OF_AWS):
            try:
                notes += (parse_feature_gates if name == GATES else parse_aws_feature_gates)(value)[1]
                settings.other_values[name] = value
            except ValueError as error:
                wrong = f"{name} cannot be used: {error}"
        elif name == COMMITMENTS:
            settings.other_values[name] = value.lower()
            if value.lower() not in SWITCH:
                wrong = f"{name} must be one of {', '.join(SWITCH)}"
        elif name in (SPREAD, CA_BUNDLE):
            settings.other_values[name] = value
        elif name in WITHOUT_EFFECT_ON_PLANS:
            notes.append(f"setting {name} has no effect on a simulation")
        else:
            wrong = f"unknown setting {name[:80]}"
        if wrong:
            faults.append(ManifestError(Source(f"--set {text}"), wrong))
    return settings, faults, notes
