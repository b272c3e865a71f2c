"""EC2NodeClass of karpenter.k8s.aws/v1beta1 as that of v1."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.legacy.amis import OldFamily, convert_family, family_problem, incompatible_status, is_incompatible
from tenon.apis.legacy.conversion import NODE_CLASS_KIND, Converted, OldObject, metadata_of, read, without_empty

HOP_LIMIT = 2
"""Of metadataOptions that state others of their fields."""
UNCHANGED = (
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "associatePublicIPAddress",
    "userData",
    "role",
    "instanceProfile",
    "tags",
    "instanceStorePolicy",
    "detailedMonitoring",
    "context",
)


class NodeClassSpec(ApiModel):
    """The fields that v1 reads otherwise."""

    ami_family: OldFamily
    ami_selector_terms: list[dict[str, Any]] = []
    block_device_mappings: list[dict[str, Any]] = []
    metadata_options: dict[str, Any] | None = None


class NodeClass(OldObject):
    spec: NodeClassSpec
    status: dict[str, Any] = {}


def convert_nodeclass(manifest: Mapping[str, Any]) -> Converted:
    """The EC2NodeClass as v1 has it."""
    found, problems = read(NodeClass, manifest)
    if found is None:
        return Converted(problems=problems)
    spec = found.spec
    if problem := family_problem(spec.ami_family, spec.ami_selector_terms, "spec.amiSelectorTerms"):
        return Converted(problems=[problem])
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    fields, added, notes = convert_family(
        spec.ami_family, spec.ami_selector_terms, spec.block_device_mappings, annotations
    )
    if spec.metadata_options is not None:
        fields["metadataOptions"] = {"httpPutResponseHopLimit": HOP_LIMIT, **spec.metadata_options}
    given = manifest["spec"]
    status = incompatible_status(found.status) if is_incompatible(added) else found.status
    node_class = {
        "apiVersion": f"{labels.AWS_GROUP}/v1",
        "kind": NODE_CLASS_KIND,
        "metadata": metadata_of(manifest, added),
        "spec": {**without_empty({name: given.get(name) for name in UNCHANGED}), **fields},
        **({"status": status} if status else {}),
    }
    return Converted([node_class], notes)
