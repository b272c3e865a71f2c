"""Evaluates the expressions in kubelet settings for one instance type (EC-15).

The number of pods is evaluated first, based on the number that the type would have without the expression. Reserved
amounts then see the result. Amounts are rounded up, so that many types share a launch template and no node reserves
less than the expression asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tenon.apis.expressions import ExpressionError, evaluate
from tenon.apis.kubelet import expressions_in, is_expression
from tenon.ec2.types.capacity import Item, NodeSettings, default_interfaces, max_pods

UNITS = {"cpu": ("m", 10), "memory": ("Mi", 16), "ephemeral-storage": ("Gi", 1), "pid": ("", 1)}
"""By resource: the unit of an expression's result, and the step to which the result is rounded up."""


def evaluate_settings(item: Item, settings: NodeSettings) -> NodeSettings:
    """Return the settings for nodes of this type, with all expressions evaluated.

    Raises:
        ExpressionError: an expression has no usable value for the type; the message names both.
    """
    if not expressions_in(settings.kubelet):
        return settings
    kubelet = dict(settings.kubelet)
    if is_expression(kubelet.get("maxPods")):
        text = kubelet.pop("maxPods")
        usual = max_pods(item, replace(settings, kubelet=kubelet))
        kubelet["maxPods"] = _value("maxPods", text, item, usual)
    pods = max_pods(item, replace(settings, kubelet=kubelet))
    for field in ("kubeReserved", "systemReserved"):
        if expressions_ := kubelet.get(field):
            kubelet[field] = {name: _amount(field, name, value, item, pods) for name, value in expressions_.items()}
    return replace(settings, kubelet=kubelet)


def variables(item: Item, pods: int) -> Mapping[str, int | str]:
    """Return the variables that an expression may use."""
    return {
        "vcpus": int(item["VCpuInfo"]["DefaultVCpus"]),
        "memory_mib": int(item["MemoryInfo"]["SizeInMiB"]),
        "default_enis": default_interfaces(item),
        "ips_per_eni": int(item["NetworkInfo"]["Ipv4AddressesPerInterface"]),
        "max_pods": pods,
        "instance_type": str(item["InstanceType"]),
    }


def _amount(field: str, name: str, value: Any, item: Item, pods: int) -> Any:
    if not is_expression(value):
        return value
    unit, step = UNITS[name]
    amount = _value(f"{field}[{name}]", value, item, pods)
    return f"{-(-amount // step) * step}{unit}"


def _value(place: str, text: str, item: Item, pods: int) -> int:
    try:
        return evaluate(text, variables(item, pods))
    except ExpressionError as error:
        raise ExpressionError(
            f"kubelet.{place}: {text[:80]!r} has no value for {item['InstanceType']}: {error}"
        ) from None
