"""A valid NodeRepairPolicy, which tests edit."""

from __future__ import annotations

from typing import Any

FAULT: dict[str, Any] = {
    "conditionType": "KernelDeadlock",
    "conditionStatus": "True",
    "tolerationDuration": "5m",
}
BASE: dict[str, Any] = {
    "apiVersion": "tenon.sh/v1alpha1",
    "kind": "NodeRepairPolicy",
    "metadata": {"name": "case"},
    "spec": {"faults": [FAULT]},
}
