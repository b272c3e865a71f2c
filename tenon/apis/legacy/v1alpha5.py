"""Converts Provisioner and Machine of karpenter.sh/v1alpha5 to NodePool and NodeClaim."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.duration import NEVER_TEXT
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.awsnodetemplate import Defaults, convert_provider
from tenon.apis.legacy.conversion import (
    PROVISIONER_NAME,
    Converted,
    Note,
    OldObject,
    class_reference,
    format_seconds,
    listed,
    metadata_of,
    name_of,
    read,
    renamed,
    without_empty,
)
from tenon.apis.validation import FieldError

REMOVED_LABELS = labels.REMOVED_LABELS
CHOOSING_TYPES = frozenset(
    {
        labels.INSTANCE_TYPE,
        *(f"{labels.AWS_GROUP}/instance-{part}" for part in ("family", "category", "generation")),
    }
)
"""Labels that select instance types. Without a requirement on any of them, old Karpenter used only common types."""
DEFAULTED = CHOOSING_TYPES | {labels.OS, labels.ARCH, labels.CAPACITY_TYPE}
"""Labels for which old Karpenter added a default requirement, and labels that prevented one."""
DEFAULT_CLASS = "default"

Seconds = Annotated[int, Field(ge=0, le=2**31)]


class Reference(ApiModel):
    name: Annotated[str, Field(min_length=1)]


class Consolidation(ApiModel):
    enabled: bool = False


class Limits(ApiModel):
    resources: dict[str, Any] = {}


class NodeSpec(ApiModel):
    """The fields that describe a node in Provisioners and Machines."""

    taints: list[dict[str, Any]] = []
    startup_taints: list[dict[str, Any]] = []
    requirements: list[dict[str, Any]] = []


class ProvisionerSpec(NodeSpec):
    annotations: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    kubelet_configuration: dict[str, Any] = {}
    provider: dict[str, Any] | None = None
    provider_ref: Reference | None = None
    ttl_seconds_after_empty: Seconds | None = None
    ttl_seconds_until_expired: Seconds | None = None
    consolidation: Consolidation = Consolidation()
    limits: Limits = Limits()
    weight: int | None = None


class Provisioner(OldObject):
    spec: ProvisionerSpec
    status: dict[str, Any] = {}


class MachineSpec(NodeSpec):
    resources: dict[str, Any] = {}
    kubelet: dict[str, Any] = {}
    machine_template_ref: Reference | None = None


class Machine(OldObject):
    spec: MachineSpec
    status: dict[str, Any] = {}


def convert_provisioner(
    manifest: Mapping[str, Any], defaults: Defaults | None = None, provider_class: str = ""
) -> Converted:
    """Convert the Provisioner to a NodePool of the same name, with an EC2NodeClass for its inline provider, if any.

    Args:
        manifest: the Provisioner.
        defaults: the cluster-wide defaults for node classes.
        provider_class: the name of that EC2NodeClass, if it differs from the name of the Provisioner.
    """
    provisioner, problems = read(Provisioner, manifest)
    if provisioner is None:
        return Converted(problems=problems)
    spec, name = provisioner.spec, name_of(manifest)
    if spec.provider is not None and spec.provider_ref is not None:
        return Converted(problems=[FieldError("spec.provider", "and providerRef exclude each other: keep one of them")])
    if spec.consolidation.enabled and spec.ttl_seconds_after_empty is not None:
        sentence = "and consolidation.enabled exclude each other: keep one of them"
        return Converted(problems=[FieldError("spec.ttlSecondsAfterEmpty", sentence)])
    own = provider_class or name
    made = Converted() if spec.provider is None else convert_provider(own, spec.provider, defaults)
    if made.problems:
        return made
    notes = list(made.notes)
    class_name = own if spec.provider is not None else spec.provider_ref.name if spec.provider_ref else DEFAULT_CLASS
    if spec.provider is not None and own != name:
        sentence = f"its provider is EC2NodeClass {own}, for {name} is the name of another class"
        notes.append(Note(sentence, "spec.template.spec.nodeClassRef"))
    if spec.provider is None and spec.provider_ref is None:
        sentence = f"it names no provider: its nodes are launched from EC2NodeClass {DEFAULT_CLASS}"
        notes.append(Note(sentence, "spec.template.spec.nodeClassRef"))
    requirements = [*_requirements(spec.requirements, notes, "spec.template.spec.requirements")]
    requirements += _old_karpenter_defaults({str(term.get("key")) for term in requirements}, spec.labels, notes)
    disruption = _disruption(spec, notes)
    template = {
        "metadata": without_empty({"labels": renamed(spec.labels), "annotations": spec.annotations}),
        "spec": {
            **without_empty({"taints": spec.taints, "startupTaints": spec.startup_taints}),
            "requirements": requirements,
            "nodeClassRef": class_reference(class_name),
            "expireAfter": NEVER_TEXT
            if spec.ttl_seconds_until_expired is None
            else format_seconds(spec.ttl_seconds_until_expired),
        },
    }
    status = without_empty({"resources": provisioner.status.get("resources")})
    pool = {
        "apiVersion": f"{labels.GROUP}/v1",
        "kind": "NodePool",
        "metadata": metadata_of(manifest, _kubelet(spec.kubelet_configuration, notes)),
        "spec": {
            "template": without_empty(template),
            "disruption": disruption,
            **without_empty({"limits": spec.limits.resources, "weight": spec.weight}),
        },
        **({"status": status} if status else {}),
    }
    return Converted([pool, *made.manifests], notes)


def convert_machine(manifest: Mapping[str, Any], expiry: Mapping[str, str] | None = None) -> Converted:
    """Convert the Machine to a NodeClaim of the same name. ``expiry`` is expireAfter by NodePool name."""
    machine, problems = read(Machine, manifest)
    if machine is None:
        return Converted(problems=problems)
    spec, notes = machine.spec, list[str]()
    reference = spec.machine_template_ref.name if spec.machine_template_ref else DEFAULT_CLASS
    owner = str(((manifest.get("metadata") or {}).get("labels") or {}).get(PROVISIONER_NAME) or "")
    status = dict(machine.status)
    conditions = status.get("conditions")
    if isinstance(conditions, list):
        status["conditions"] = [_condition(c) for c in conditions if not _is_removed(c)]
    claim = {
        "apiVersion": f"{labels.GROUP}/v1",
        "kind": "NodeClaim",
        "metadata": metadata_of(manifest, _kubelet(spec.kubelet, notes)),
        "spec": {
            **without_empty({"taints": spec.taints, "startupTaints": spec.startup_taints}),
            "requirements": [*_requirements(spec.requirements, notes, "spec.requirements")],
            **without_empty({"resources": spec.resources}),
            "nodeClassRef": class_reference(reference),
            "expireAfter": (expiry or {}).get(owner, NEVER_TEXT),
        },
        **({"status": status} if status else {}),
    }
    return Converted([claim], notes)


def _requirements(terms: Sequence[JsonObject], notes: list[str], path: str) -> list[JsonObject]:
    kept = []
    for term in terms:
        key = str(term.get("key"))
        if key in labels.REMOVED_LABELS:
            notes.append(Note(f"the requirement on label {key} is dropped: no node has that label any more", path))
        elif key == PROVISIONER_NAME:
            notes.append(Note(f"the requirement on label {key} is dropped: a node's pool is known from its name", path))
        else:
            kept.append(term)
    return kept


def _old_karpenter_defaults(keys: Iterable[str], stated: Iterable[str], notes: list[str]) -> list[JsonObject]:
    """Return the requirements that old Karpenter added to every Provisioner that had none on the label.

    If the Provisioner gives its nodes one of these labels (``stated``), the default is left out: it would be redundant,
    or it would contradict the label and no node could be launched.
    """
    required = {labels.ALIASES.get(key, key) for key in keys}
    left_out = {key for key in stated if labels.ALIASES.get(key, key) in DEFAULTED} - required
    known = required | {labels.ALIASES.get(key, key) for key in left_out}
    if left_out:
        sentence = f"the default of that time is not added beside the labels that say it: {listed(left_out)}"
        notes.append(Note(sentence, "spec.template.metadata.labels"))
    added = [
        {"key": key, "operator": "In", "values": values}
        for key, values in (
            (labels.OS, ["linux"]),
            (labels.ARCH, ["amd64"]),
            (labels.CAPACITY_TYPE, [labels.ON_DEMAND]),
        )
        if key not in known
    ]
    if not known & CHOOSING_TYPES:
        added += [
            {"key": f"{labels.AWS_GROUP}/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": f"{labels.AWS_GROUP}/instance-generation", "operator": "Gt", "values": ["2"]},
        ]
    if added:
        texts = (f"{term['key']} {term['operator']} [{', '.join(term['values'])}]" for term in added)
        sentence = f"what was added to a Provisioner by default is written out: {'; '.join(texts)}"
        notes.append(Note(sentence, "spec.template.spec.requirements"))
    return added


def _disruption(spec: ProvisionerSpec, notes: list[str]) -> JsonObject:
    """Return the disruption settings. There were no budgets, and v1's default of 10% would delay disruption."""
    seconds = spec.ttl_seconds_after_empty
    budgets = [{"nodes": "100%"}]
    if spec.consolidation.enabled or seconds is not None:
        sentence = "it had no disruption budget, so all of its nodes may leave at once: a smaller budget"
        sentence += " slows that down"
        notes.append(Note(sentence, "spec.disruption.budgets"))
    if spec.consolidation.enabled:
        return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": budgets}
    after = NEVER_TEXT if seconds is None else format_seconds(seconds)
    return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after, "budgets": budgets}


def _kubelet(given: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    """Return the kubelet settings as an annotation, from which they move to the class."""
    if not given:
        return {}
    notes.append(
        Note("kubelet settings belong to the EC2NodeClass now", f"metadata.annotations[{labels.V1BETA1_KUBELET}]")
    )
    kept = {name: value for name, value in given.items() if name != "containerRuntime"}
    if len(kept) < len(given):
        notes.append(Note("containerRuntime is dropped: every node runs containerd", "spec.template.spec.nodeClassRef"))
    return {labels.V1BETA1_KUBELET: json.dumps(kept, sort_keys=True)} if kept else {}


def _is_removed(condition: Any) -> bool:
    return isinstance(condition, dict) and condition.get("type") in ("MachineEmpty", "MachineExpired")


def _condition(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return condition
    return {**condition, "type": str(condition.get("type", "")).removeprefix("Machine")}
