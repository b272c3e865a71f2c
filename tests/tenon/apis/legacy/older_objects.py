"""Provisioners and AWSNodeTemplates as an API server stores them."""

from __future__ import annotations

import copy
from typing import Any

from tests.tenon.apis.legacy.sound import manifest

SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"c": "*"}}
TEMPLATE_SPEC = {**SELECTORS, "instanceProfile": "nodes"}


def provisioner(edits: dict[str, Any] | None = None, name: str = "old", **metadata: Any) -> dict[str, Any]:
    spec = {"providerRef": {"name": "mine"}}
    result: dict[str, Any] = manifest(
        "karpenter.sh/v1alpha5", "Provisioner", spec, edits, **{"name": name, "uid": f"uid-{name}", **metadata}
    )
    return result


def template(edits: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    result: dict[str, Any] = manifest(
        "karpenter.k8s.aws/v1alpha1",
        "AWSNodeTemplate",
        TEMPLATE_SPEC,
        edits,
        **{"name": "mine", "uid": "u", **metadata},
    )
    return result


def patched(body: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    result = copy.deepcopy(body)
    for step in patch:
        *parents, last = step["path"].strip("/").split("/")
        place = result
        for part in parents:
            place = place[part]
        if step["op"] == "test":
            assert place[last] == step["value"]
        else:
            place[last] = copy.deepcopy(step["value"])
    return result
