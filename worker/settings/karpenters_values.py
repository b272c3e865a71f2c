"""Translates the variables and flags of Karpenter's Deployment into values of Tenon's chart, and says what is lost."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tenon.apis.json_object import JsonObject, field_at
from tenon.provisioning.gates import AWS_GATES, GATES, REMOVED, AwsFeatureGates, FeatureGates
from worker.settings.chart_names import OTHER_VALUE_NAMES, gate_value_name, value_name
from worker.settings.container_variables import ConfigMaps, source_name, variables_of
from worker.settings.env_typos import REMOVED as REMOVED_SETTINGS
from worker.settings.model import Settings

OF_THE_POD = {"KUBERNETES_MIN_VERSION", "SYSTEM_NAMESPACE", "KARPENTER_SERVICE", "CPU_REQUESTS", "MEMORY_LIMIT"}
"""What Karpenter's chart writes on its own, and Tenon's does too."""
NOT_TAKEN = {
    "DISABLE_WEBHOOK": "Tenon's webhook converts v1beta1, and its CRDs need it: leave it on",
    "WEBHOOK_PORT": "it is the port of the conversion of v1beta1, which Karpenter's was not",
    "DISABLE_LEADER_ELECTION": "Tenon needs its Lease, which shows that it leads",
    "LEADER_ELECTION_NAMESPACE": "Tenon's Lease is in its own namespace",
}
OTHER_DEFAULTS = {
    "AMI_REFRESH_INTERVAL": "1m",
    "SUBNET_REFRESH_INTERVAL": "1m",
    "SECURITY_GROUP_REFRESH_INTERVAL": "1m",
}
"""Karpenter's default where Tenon's is another one (SET-29)."""
LISTS = ("log_output_paths", "log_error_output_paths")
TRUE = ("1", "t", "true")
POD_FIELDS = (
    "nodeSelector",
    "tolerations",
    "priorityClassName",
    "hostNetwork",
    "topologySpreadConstraints",
    "affinity",
)


@dataclass(slots=True)
class ChartValues:
    """Values for the chart, and notes on what they do not say."""

    values: JsonObject = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, path: str, value: Any) -> None:
        """Set a value by its path with dots."""
        *parents, name = path.split(".")
        holder = self.values
        for parent in parents:
            holder = holder.setdefault(parent, {})
        holder[name] = value


def translate(deployment: JsonObject, config_maps: ConfigMaps) -> ChartValues:
    """Translate Karpenter's Deployment.

    Variables of ConfigMaps become values too, because Tenon's pods may be in another namespace than the ConfigMaps.
    """
    result = ChartValues()
    variables = variables_of(deployment, config_maps)
    if variables.unread_sources:
        result.put("controller.envFrom", variables.unread_sources)
        names = ", ".join(map(source_name, variables.unread_sources))
        result.notes.append(f"variables of {names} were not read: Tenon's namespace needs the same objects")
    if passed_on := [entry for entry in variables.unread_variables if entry["name"] not in OF_THE_POD]:
        result.put("controller.env", passed_on)
    for name, text in sorted(variables.values.items()):
        _translate(name, text, result)
    for name, default in OTHER_DEFAULTS.items():
        if name not in variables.values:
            result.notes.append(f"{name} is {default} in Karpenter and 10m in Tenon by default (SET-29)")
    if replicas := field_at(deployment, "spec", "replicas"):
        result.put("replicas", replicas)
    pod = field_at(deployment, "spec", "template", "spec") or {}
    pod_values = deepcopy({name: pod[name] for name in POD_FIELDS if pod.get(name)})
    _remove_own_selectors(pod_values, field_at(deployment, "spec", "selector", "matchLabels"))
    for name, value in pod_values.items():
        result.put(name, value)
    result.notes.append("add temporal.address, your image (controller.image) and the ServiceAccount's role")
    return result


def _remove_own_selectors(pod_values: JsonObject, own_labels: Mapping[str, str] | None) -> None:
    """Remove the selectors that Karpenter's chart filled in with its own labels: Tenon's chart fills in its own."""
    terms = list(pod_values.get("topologySpreadConstraints") or ())
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = field_at(pod_values, "affinity", kind) or {}
        terms += affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted["podAffinityTerm"] for weighted in preferred]
    for term in terms:
        if term.get("labelSelector") == {"matchLabels": own_labels}:
            del term["labelSelector"]


def _translate(name: str, text: str, result: ChartValues) -> None:
    field_name = name.lower()
    if name in OF_THE_POD or not text:
        return
    if name in NOT_TAKEN:
        result.notes.append(f"{name} is left out: {NOT_TAKEN[name]}")
    elif name in REMOVED_SETTINGS:
        result.notes.append(f"{name} is left out: {REMOVED_SETTINGS[name]}")
    elif field_name not in Settings.model_fields:
        passed_on = (result.values.get("controller") or {}).get("env") or []
        result.put("controller.env", [*passed_on, {"name": name, "value": text}])
    elif field_name == "feature_gates":
        _gates(text, "featureGates", GATES, FeatureGates(), result)
    elif field_name == "aws_feature_gates":
        _gates(text, "awsFeatureGates", AWS_GATES, AwsFeatureGates(), result)
    elif field_name in LISTS:
        result.put(OTHER_VALUE_NAMES[field_name], text.split(","))
    elif field_name.endswith("_port"):
        if text.isascii() and text.isdigit():
            result.put(OTHER_VALUE_NAMES[field_name], int(text))
        else:
            result.notes.append(f"{name} is left out: {text} is no number")
    else:
        path = OTHER_VALUE_NAMES.get(field_name, f"settings.{value_name(field_name)}")
        result.put(path, _typed(text, Settings.model_fields[field_name].default))


def _typed(text: str, default: Any) -> Any:
    """The value as YAML has it: numbers and booleans are none in a variable."""
    if isinstance(default, bool):
        return text.lower() in TRUE
    for kind in (int, float):
        if isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                return text
    return text


def _gates(text: str, section: str, gates: Mapping[str, str], defaults: Any, result: ChartValues) -> None:
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, _, value = part.partition("=")
        is_on = value.strip().lower() in TRUE
        if name in REMOVED:
            result.notes.append(f"gate {name} is left out: {REMOVED[name]}")
        elif name not in gates:
            if is_on:
                result.notes.append(f"gate {name} does not exist in Tenon: what it switches on is missing")
        elif is_on != getattr(defaults, gates[name]):
            result.put(f"settings.{section}.{gate_value_name(name)}", is_on)
