"""NodePool and NodeClaim of karpenter.sh/v1beta1 as those of v1."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.duration import NEVER, Duration
from tenon.apis.legacy.conversion import (
    COMPATIBILITY,
    KUBELET_ANNOTATION,
    NODE_CLASS_KIND,
    Converted,
    Manifest,
    Note,
    OldObject,
    metadata_of,
    read,
    renamed,
    without_empty,
)
from tenon.apis.validation import Problem

REFERENCE_ANNOTATION = f"{COMPATIBILITY}/v1beta1-nodeclass-reference"
DROPPED_CONDITIONS = ("Empty", "Expired")
DEFAULT_EXPIRY = Duration("720h")


class ClassReference(ApiModel):
    api_version: str = ""
    kind: str = NODE_CLASS_KIND
    name: Annotated[str, Field(min_length=1)]


class NodeSpec(ApiModel):
    """What NodePools and NodeClaims say of a node."""

    taints: list[dict[str, Any]] = []
    startup_taints: list[dict[str, Any]] = []
    requirements: list[dict[str, Any]]
    resources: dict[str, Any] = {}
    kubelet: dict[str, Any] = {}
    node_class_ref: ClassReference


class TemplateMetadata(ApiModel):
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}


class Template(ApiModel):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeSpec


class Disruption(ApiModel):
    consolidation_policy: Literal["WhenEmpty", "WhenUnderutilized"] | None = None
    consolidate_after: Duration | None = None
    expire_after: Duration = DEFAULT_EXPIRY
    budgets: list[dict[str, Any]] | None = None


class NodePoolSpec(ApiModel):
    template: Template
    disruption: Disruption = Disruption()
    limits: dict[str, Any] = {}
    weight: int | None = None


class NodePool(OldObject):
    spec: NodePoolSpec
    status: dict[str, Any] = {}


class NodeClaim(OldObject):
    spec: NodeSpec
    status: dict[str, Any] = {}


def convert_nodepool(manifest: Mapping[str, Any]) -> Converted:
    """The NodePool as v1 has it. Its kubelet settings are kept in an annotation, for its class."""
    pool, problems = read(NodePool, manifest)
    if pool is None:
        return Converted(problems=problems)
    given, template = pool.spec.disruption, pool.spec.template
    if problem := _disruption_problem(given):
        return Converted(problems=[problem])
    disruption, notes = _disruption(given)
    annotations, kubelet_notes = _kept(template.spec)
    spec = {
        "template": without_empty(
            {
                "metadata": without_empty(
                    {"labels": renamed(template.metadata.labels), "annotations": template.metadata.annotations}
                ),
                "spec": {**_node_spec(template.spec), "expireAfter": str(given.expire_after)},
            }
        ),
        "disruption": disruption,
        **without_empty({"limits": pool.spec.limits, "weight": pool.spec.weight}),
    }
    return Converted([_object(manifest, "NodePool", annotations, spec, pool.status)], [*notes, *kubelet_notes])


def convert_nodeclaim(manifest: Mapping[str, Any], expiry: Mapping[str, str] | None = None) -> Converted:
    """The NodeClaim as v1 has it; ``expiry`` is expireAfter of the NodePools, which it takes over from its own."""
    claim, problems = read(NodeClaim, manifest)
    if claim is None:
        return Converted(problems=problems)
    annotations, notes = _kept(claim.spec)
    owner = str(((manifest.get("metadata") or {}).get("labels") or {}).get(labels.NODEPOOL) or "")
    spec = {
        **_node_spec(claim.spec),
        **without_empty({"resources": claim.spec.resources}),
        "expireAfter": (expiry or {}).get(owner, str(DEFAULT_EXPIRY)),
    }
    status = dict(claim.status)
    conditions = status.get("conditions")
    if isinstance(conditions, list):
        kept = [c for c in conditions if not (isinstance(c, dict) and c.get("type") in DROPPED_CONDITIONS)]
        status["conditions"] = kept
    return Converted([_object(manifest, "NodeClaim", annotations, spec, status)], notes)


def _object(
    manifest: Mapping[str, Any], kind: str, annotations: Mapping[str, str], spec: Manifest, status: Manifest
) -> Manifest:
    return {
        "apiVersion": f"{labels.GROUP}/v1",
        "kind": kind,
        "metadata": metadata_of(manifest, annotations),
        "spec": spec,
        **({"status": status} if status else {}),
    }


def _node_spec(spec: NodeSpec) -> Manifest:
    reference = spec.node_class_ref
    group = reference.api_version.partition("/")[0] or labels.AWS_GROUP
    return {
        **without_empty({"taints": spec.taints, "startupTaints": spec.startup_taints}),
        "requirements": spec.requirements,
        "nodeClassRef": {"group": group, "kind": reference.kind, "name": reference.name},
    }


def _kept(spec: NodeSpec) -> tuple[dict[str, str], list[str]]:
    """What v1 has elsewhere, as annotations, with notes."""
    annotations = {REFERENCE_ANNOTATION: json.dumps(spec.node_class_ref.to_dict())}
    if not spec.kubelet:
        return annotations, []
    place = f"metadata.annotations[{KUBELET_ANNOTATION}]"
    notes: list[str] = [Note("kubelet settings belong to the EC2NodeClass now", place)]
    kubelet = dict(spec.kubelet)
    if kubelet.pop("containerRuntime", None) is not None:
        notes.append(
            Note("kubelet.containerRuntime is dropped: every node runs containerd", "spec.template.spec.nodeClassRef")
        )
    if kubelet:
        annotations[KUBELET_ANNOTATION] = json.dumps(kubelet, sort_keys=True)
    return annotations, notes


def _disruption_problem(given: Disruption) -> Problem | None:
    path = "spec.disruption.consolidateAfter"
    if given.consolidation_policy == "WhenEmpty" and given.consolidate_after is None:
        return Problem(path, "is required with consolidationPolicy WhenEmpty")
    if given.consolidation_policy == "WhenUnderutilized" and given.consolidate_after not in (None, NEVER):
        return Problem(path, "is not taken with consolidationPolicy WhenUnderutilized before v1: leave one of them out")
    return None


def _disruption(given: Disruption) -> tuple[Manifest, list[str]]:
    sentence = "expired nodes are drained at once now: budgets no longer hold them up, no replacement comes first"
    notes: list[str] = [Note(sentence, "spec.template.spec.expireAfter")]
    found: Manifest = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": str(given.consolidate_after or "0s")}
    if given.consolidation_policy != "WhenEmpty":
        found["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
        sentence = "consolidationPolicy WhenUnderutilized is WhenEmptyOrUnderutilized now, "
        sentence += f"with consolidateAfter {found['consolidateAfter']}"
        notes.append(Note(sentence, "spec.disruption.consolidationPolicy"))
    if given.expire_after.never:
        notes = notes[1:]
    return {**found, **({} if given.budgets is None else {"budgets": given.budgets})}, notes
