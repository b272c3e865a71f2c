"""The conversion settings of a CustomResourceDefinition with two versions, and when stored objects need migration."""

from __future__ import annotations

from typing import Any

from tenon.apis.json_object import field_at
from tenon.apis.versions.objects import V1, V1BETA1

STORED_VERSION_MIGRATED = "karpenter.sh/stored-version-migrated"
"""Set on objects that were stored as v1beta1 and have been rewritten as v1."""
NAMES = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")

_WAYS = ("service", "url")


def conversion_patch(definition: dict[str, Any], way: dict[str, Any], authorities: str) -> dict[str, Any] | None:
    """Return the merge patch that makes the webhook convert objects; None if no change is needed.

    Args:
        definition: the CustomResourceDefinition.
        way: ``service`` or ``url`` of the webhook, as in clientConfig.
        authorities: the CA bundle of the webhook, base64.
    """
    spec = definition.get("spec") or {}
    if not _serves_both(spec):
        return None
    conversion = spec.get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    desired = {**way, "caBundle": authorities}
    if conversion.get("strategy") == "Webhook" and (webhook.get("clientConfig") or {}) == desired:
        return None
    client = {**dict.fromkeys(_WAYS), **desired}
    return {
        "spec": {
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": [V1]},
            }
        }
    }


def trusted_authorities(definition: dict[str, Any]) -> str:
    """The CA bundle with which the API server verifies the webhook, base64; empty if it is not set yet."""
    return str(field_at(definition, "spec", "conversion", "webhook", "clientConfig", "caBundle") or "")


def needs_conversion(definition: dict[str, Any]) -> bool:
    """Whether reading objects requires the webhook: both versions are served, or some objects are stored as v1beta1."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    return _serves_both(definition.get("spec") or {}) or V1BETA1 in stored


def is_to_be_migrated(definition: dict[str, Any]) -> bool:
    """Whether objects may still be stored as v1beta1 although v1 is now the storage version."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    storage = [
        version.get("name")
        for version in (definition.get("spec") or {}).get("versions") or []
        if version.get("storage")
    ]
    return V1BETA1 in stored and storage == [V1]


def _serves_both(spec: dict[str, Any]) -> bool:
    served = {version.get("name") for version in spec.get("versions") or [] if version.get("served")}
    return {V1, V1BETA1} <= served
