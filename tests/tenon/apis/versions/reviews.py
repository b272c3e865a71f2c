"""ConversionReviews and the objects in them."""

from __future__ import annotations

from typing import Any


def claim(name: str = "n", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"nodeClassRef": {"name": "c"}, "requirements": [], **spec},
    }


def review(*objects: Any, expectation: Any = "karpenter.sh/v1") -> dict[str, Any]:
    request = {"uid": "u-1", "desiredAPIVersion": expectation, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
