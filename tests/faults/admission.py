"""A ValidatingAdmissionPolicy of a test's own, in force while it is entered."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS, Resource
from tests.tenon.apis.case import NODECLAIM
from tests.workflows.waiting import until

_GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(_GROUP, "v1", "validatingadmissionpolicies", False, "ValidatingAdmissionPolicy")
BINDINGS = Resource(_GROUP, "v1", "validatingadmissionpolicybindings", False, "ValidatingAdmissionPolicyBinding")


@asynccontextmanager
async def no_nodeclaim_with(kube: Kube, label: str, value: str, message: str) -> AsyncIterator[None]:
    """No NodeClaim with this label can be created: the API server answers with the message. Afterwards it can again."""
    name = f"test-{uuid.uuid4().hex[:6]}"
    policy: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["karpenter.sh"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["nodeclaims"],
                }
            ]
        },
        "validations": [
            {
                "expression": f"!has(object.metadata.labels) || !('{label}' in object.metadata.labels)"
                f" || object.metadata.labels['{label}'] != '{value}'",
                "message": message,
            }
        ],
    }

    async def refusal() -> str:
        """Why such a NodeClaim is not created; empty if it would be."""
        trial = {
            "apiVersion": NODECLAIMS.api_version,
            "kind": NODECLAIMS.kind,
            **NODECLAIM,
            "metadata": {"name": f"{name}-trial", "labels": {label: value}},
        }
        try:
            await kube.request("POST", NODECLAIMS.path(), query={"dryRun": "All"}, body=trial)
        except ApiError as refused:
            return refused.message
        return ""

    async def in_force() -> bool:
        return message in await refusal()

    async def lifted() -> bool:
        return not await refusal()

    await kube.create(POLICIES, {"metadata": {"name": name}, "spec": policy})
    try:
        await kube.create(
            BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
        )
        await until(in_force)
        yield
    finally:
        await kube.delete(BINDINGS, name)
        await kube.delete(POLICIES, name)
    await until(lifted)  # the API server hears of it a moment later
