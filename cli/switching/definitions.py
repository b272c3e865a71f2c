"""Whether Karpenter's CRDs still store v1beta1, and the installation of Tenon's CRDs in their place."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CRDS, Resource
from cli.diagnosis.kubernetes import MAIN_CRDS
from tenon.apis.crd import CONVERSION, custom_resource_definitions
from tenon.apis.json_object import JsonObject, field_at

MUTATING = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", False, "MutatingWebhookConfiguration"
)
VALIDATING = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", False, "ValidatingWebhookConfiguration"
)
OLD_WEBHOOKS = {
    MUTATING: ("defaulting.webhook.karpenter.k8s.aws", "defaulting.webhook.karpenter.sh"),
    VALIDATING: (
        "validation.webhook.karpenter.sh",
        "validation.webhook.config.karpenter.sh",
        "validation.webhook.karpenter.k8s.aws",
    ),
}
"""What a Karpenter before 1.1 registered. Once it has stopped, no server answers them, and they refuse every write."""
BUFFERS = "autoscaling.x-k8s.io_capacitybuffers.yaml"
"""Cluster Autoscaler may own this CRD, so the guide does not install it."""


async def stored_as_v1beta1(kube: Kube) -> list[str]:
    """Names of the CRDs that store v1beta1 and whose objects Karpenter converts, not Tenon."""
    names = []
    for name in MAIN_CRDS:
        definition = await kube.get(CRDS, name)
        versions = field_at(definition or {}, "status", "storedVersions") or []
        if definition is not None and "v1beta1" in versions and not _is_tenons(definition):
            names.append(name)
    return names


async def is_install_begun(kube: Kube) -> bool:
    """Whether Tenon's CRDs have replaced some of Karpenter's, which then cannot read what they store."""
    definitions = [await kube.get(CRDS, name) for name in MAIN_CRDS]
    return any(definition is not None and _is_tenons(definition) for definition in definitions)


def _is_tenons(definition: JsonObject) -> bool:
    """Whether objects of the CRD are converted by Tenon's webhook, whose path is its own."""
    path = field_at(CONVERSION, "webhook", "clientConfig", "service", "path")
    config = field_at(definition, "spec", "conversion", "webhook", "clientConfig") or {}
    return bool(field_at(config, "service", "path") == path or str(config.get("url") or "").endswith(str(path)))


async def install(kube: Kube) -> None:
    """Apply Tenon's CRDs as `kubectl apply --server-side --force-conflicts -f deploy/crds`, and delete old webhooks."""
    for file_name, definition in custom_resource_definitions().items():
        if file_name != BUFFERS:
            await kube.patch(CRDS, definition["metadata"]["name"], definition, kind="apply")
    for resource, names in OLD_WEBHOOKS.items():
        for name in names:
            await kube.delete(resource, name)
