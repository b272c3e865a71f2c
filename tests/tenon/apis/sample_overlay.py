"""A valid NodeOverlay, which tests edit."""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "case"},
    "spec": {"requirements": []},
}
