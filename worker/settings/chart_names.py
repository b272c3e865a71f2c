"""What each setting and gate is called in the values of the Helm chart, which has Karpenter's names for them."""

from __future__ import annotations

OTHER_VALUE_NAMES = {
    "feature_gates": "settings.featureGates",
    "aws_feature_gates": "settings.awsFeatureGates",
    "metrics_port": "controller.metrics.port",
    "health_probe_port": "controller.healthProbe.port",
    "log_level": "logLevel",
    "log_output_paths": "logOutputPaths",
    "log_error_output_paths": "logErrorOutputPaths",
    "disable_webhook": "webhook.enabled",
    "webhook_port": "webhook.port",
    "karpenter_service": "the name of the release",
    "cpu_requests": "controller.resources.requests.cpu",
    "memory_limit": "controller.resources.limits.memory",
}
"""Settings that are not strings under ``settings`` in the chart's values, with their location."""
_ACRONYMS = {"Arn": "ARN", "Ca": "CA", "Vpc": "VPC", "Enis": "ENIs", "Dra": "DRA", "Qps": "QPS", "Url": "URL"}
"""Acronyms as Karpenter's chart spells them."""
_FIRST_ACRONYMS = ("DRA", "VPA")
"""The one acronym that gates begin with. The chart's template knows it too."""


def value_name(field: str) -> str:
    """Return a setting's name under ``settings`` in the chart's values: clusterCABundle for cluster_ca_bundle."""
    first, *others = field.split("_")
    return first + "".join(_ACRONYMS.get(word.title(), word.title()) for word in others)


def gate_value_name(gate: str) -> str:
    """Return a gate's name in the chart's values: nodeOverlay for NodeOverlay, draEFA for DRAEFA."""
    first = gate[:3] if gate.startswith(_FIRST_ACRONYMS) else gate[0]
    return first.lower() + gate.removeprefix(first)
