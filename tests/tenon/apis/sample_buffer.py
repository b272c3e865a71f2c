"""A valid CapacityBuffer, which tests edit."""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "metadata": {"name": "case"},
    "spec": {"podTemplateRef": {"name": "small"}, "replicas": 3},
}
