"""What the definition of a kind with two versions has to say of their conversion, and when objects are rewritten."""

from __future__ import annotations

from typing import Any

from tenon.apis.versions.objects import V1, V1BETA1

STORED_VERSION_MIGRATED = "karpenter.sh/stored-version-migrated"
"""On objects that were stored as v1beta1 once: they are stored as v1 now."""
NAMES = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")

_WAYS = ("service", "url")


def conversion_patch(definition: dict[str, Any], way: dict[str, Any], authorities: str) -> dict[str, Any] | None:
    """The merge patch that has objects converted by the webhook; None when that is what the definition says.

    Args:
        way: ``service`` or ``url`` of the webhook, as clientConfig has it.
        authorities: whom to trust for it, base64.
    """
    spec = definition.get("spec") or {}
    if not _serves_both(spec):
        return None
    conversion = spec.get("conversion") or {}
    webhook = conversion.get("webhook") or {}
    wanted = {**way, "caBundle": authorities}
    if conversion.get("strategy") == "Webhook" and (webhook.get("clientConfig") or {}) == wanted:
        return None
    client = {**dict.fromkeys(_WAYS), **wanted}
    return {
        "spec": {
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": [V1]},
            }
        }
    }


def trusted_authorities(definition: dict[str, Any]) -> str:
    """Whom the API server trusts for the webhook, base64; empty where nobody has told it yet."""
    conversion = (definition.get("spec") or {}).get("conversion") or {}
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return str(client.get("caBundle") or "")


def needs_conversion(definition: dict[str, Any]) -> bool:
    """Whether objects cannot be read without the webhook: both versions are served, or one is stored that is not v1."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    return _serves_both(definition.get("spec") or {}) or V1BETA1 in stored


def is_to_be_migrated(definition: dict[str, Any]) -> bool:
    """Whether objects may still be stored as v1beta1 although v1 is what is stored now."""
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
