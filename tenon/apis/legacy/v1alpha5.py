"""Converts Provisioner and Machine of karpenter.sh/v1alpha5 to NodePool and NodeClaim."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.duration import NEVER_TEXT
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.awsnodetemplate import Defaults, convert_provider
from tenon.apis.legacy.conversion import (
    PROVISIONER_NAME,
    Converted,
    Note,
    class_reference,
    format_seconds,
    listed,
    metadata_of,
    name_of,
    renamed,
    stored,
    without_empty,
)
from tenon.apis.legacy.kinds.v1alpha5 import Machine, Provisioner
from tenon.apis.validation import FieldError

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
_NODE = tuple(f"spec.{name}" for name in ("taints", "startupTaints", "requirements"))
_PROVISIONER = (
    *_NODE,
    *(f"spec.{name}" for name in ("annotations", "labels", "kubeletConfiguration", "provider", "providerRef.name")),
    *(f"spec.{name}" for name in ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "consolidation.enabled")),
    *(f"spec.{name}" for name in ("limits.resources", "weight")),
)
_MACHINE = (*_NODE, "spec.resources", "spec.kubelet", "spec.machineTemplateRef.name")


def convert_provisioner(
    manifest: Mapping[str, Any], defaults: Defaults | None = None, provider_class: str = ""
) -> Converted:
    """Convert the Provisioner to a NodePool of the same name, with an EC2NodeClass for its inline provider, if any.

    Args:
        manifest: the Provisioner.
        defaults: the cluster-wide defaults for node classes.
        provider_class: the name of that EC2NodeClass, if it differs from the name of the Provisioner.
    """
    old, problems = stored(Provisioner, manifest, _PROVISIONER)
    if problems:
        return Converted(problems=problems)
    spec, name = old["spec"], name_of(manifest)
    provider, reference = spec.get("provider"), spec.get("providerRef")
    if provider is not None and reference is not None:
        return Converted(problems=[FieldError("spec.provider", "and providerRef exclude each other: keep one of them")])
    if _consolidates(spec) and "ttlSecondsAfterEmpty" in spec:
        sentence = "and consolidation.enabled exclude each other: keep one of them"
        return Converted(problems=[FieldError("spec.ttlSecondsAfterEmpty", sentence)])
    own = provider_class or name
    converted_class = Converted() if provider is None else convert_provider(own, provider, defaults)
    if converted_class.problems:
        return converted_class
    notes = list(converted_class.notes)
    class_name = own if provider is not None else reference["name"] if reference else DEFAULT_CLASS
    if provider is not None and own != name:
        sentence = f"its provider is EC2NodeClass {own}, because {name} is the name of another class"
        notes.append(Note(sentence, "spec.template.spec.nodeClassRef"))
    if provider is None and reference is None:
        sentence = f"it names no provider: its nodes are launched from EC2NodeClass {DEFAULT_CLASS}"
        notes.append(Note(sentence, "spec.template.spec.nodeClassRef"))
    requirements = _requirements(spec, notes, "spec.template.spec.requirements")
    node_labels = spec.get("labels") or {}
    requirements += _old_karpenter_defaults(set(map(_key, requirements)), node_labels, notes)
    disruption = _disruption(spec, notes)
    if spec.get("ttlSecondsUntilExpired") is not None:
        sentence = "expired nodes are drained at once now: no budget delays them, and no replacement is launched first"
        notes.append(Note(sentence, "spec.template.spec.expireAfter"))
    template = {
        "metadata": without_empty({"labels": renamed(node_labels), "annotations": spec.get("annotations")}),
        "spec": {
            **without_empty({name: spec.get(name) for name in ("taints", "startupTaints")}),
            "requirements": requirements,
            "nodeClassRef": class_reference(class_name),
            "expireAfter": _after(spec.get("ttlSecondsUntilExpired")),
        },
    }
    status = without_empty({"resources": (old.get("status") or {}).get("resources")})
    pool = {
        "apiVersion": f"{labels.GROUP}/v1",
        "kind": "NodePool",
        "metadata": metadata_of(manifest, _kubelet(spec.get("kubeletConfiguration"), notes)),
        "spec": {
            "template": without_empty(template),
            "disruption": disruption,
            **without_empty({"limits": (spec.get("limits") or {}).get("resources"), "weight": spec.get("weight")}),
        },
        **({"status": status} if status else {}),
    }
    return Converted([pool, *converted_class.manifests], notes)


def convert_machine(manifest: Mapping[str, Any], expiry: Mapping[str, str] | None = None) -> Converted:
    """Convert the Machine to a NodeClaim of the same name. ``expiry`` is expireAfter by NodePool name."""
    old, problems = stored(Machine, manifest, _MACHINE)
    if problems:
        return Converted(problems=problems)
    spec, notes = old["spec"], list[str]()
    reference = (spec.get("machineTemplateRef") or {}).get("name", DEFAULT_CLASS)
    owner = str(((manifest.get("metadata") or {}).get("labels") or {}).get(PROVISIONER_NAME) or "")
    status = dict(old.get("status") or {})
    conditions = status.get("conditions")
    if isinstance(conditions, list):
        status["conditions"] = [_condition(c) for c in conditions if not _is_removed(c)]
    claim = {
        "apiVersion": f"{labels.GROUP}/v1",
        "kind": "NodeClaim",
        "metadata": metadata_of(manifest, _kubelet(spec.get("kubelet"), notes)),
        "spec": {
            **without_empty({name: spec.get(name) for name in ("taints", "startupTaints")}),
            "requirements": _requirements(spec, notes, "spec.requirements"),
            **without_empty({"resources": spec.get("resources")}),
            "nodeClassRef": class_reference(reference),
            "expireAfter": (expiry or {}).get(owner, NEVER_TEXT),
        },
        **({"status": status} if status else {}),
    }
    return Converted([claim], notes)


def _key(term: Any) -> str:
    """Return the label of a requirement. Validation of the v1 object refuses a requirement that is not a mapping."""
    return str(term.get("key")) if isinstance(term, dict) else ""


def _requirements(spec: Mapping[str, Any], notes: list[str], path: str) -> list[JsonObject]:
    kept_terms = []
    for term in spec.get("requirements") or ():
        key = _key(term)
        if key in labels.REMOVED_LABELS:
            notes.append(Note(f"the requirement on label {key} is dropped: no node has that label any more", path))
        elif key == PROVISIONER_NAME:
            notes.append(Note(f"the requirement on label {key} is dropped: a node's pool is known from its name", path))
        else:
            kept_terms.append(term)
    return kept_terms


def _old_karpenter_defaults(keys: Iterable[str], stated_keys: Iterable[str], notes: list[str]) -> list[JsonObject]:
    """Return the requirements that old Karpenter added to every Provisioner that had none on the label.

    If the Provisioner gives its nodes one of these labels (``stated_keys``), the default is left out: it would be
    redundant, or it would contradict the label and no node could be launched.
    """
    required = {labels.ALIASES.get(key, key) for key in keys}
    left_out = {key for key in stated_keys if labels.ALIASES.get(key, key) in DEFAULTED} - required
    known_keys = required | {labels.ALIASES.get(key, key) for key in left_out}
    if left_out:
        sentence = f"the default of that time is not added, because these labels set it already: {listed(left_out)}"
        notes.append(Note(sentence, "spec.template.metadata.labels"))
    added = [
        {"key": key, "operator": "In", "values": values}
        for key, values in (
            (labels.OS, ["linux"]),
            (labels.ARCH, ["amd64"]),
            (labels.CAPACITY_TYPE, [labels.ON_DEMAND]),
        )
        if key not in known_keys
    ]
    if not known_keys & CHOOSING_TYPES:
        added += [
            {"key": f"{labels.AWS_GROUP}/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": f"{labels.AWS_GROUP}/instance-generation", "operator": "Gt", "values": ["2"]},
        ]
    if added:
        texts = (f"{term['key']} {term['operator']} [{', '.join(term['values'])}]" for term in added)
        sentence = f"the defaults of a Provisioner are written out: {'; '.join(texts)}"
        notes.append(Note(sentence, "spec.template.spec.requirements"))
    return added


def _consolidates(spec: Mapping[str, Any]) -> bool:
    return bool((spec.get("consolidation") or {}).get("enabled"))


def _after(seconds: int | None) -> str:
    return NEVER_TEXT if seconds is None else format_seconds(seconds)


def _disruption(spec: Mapping[str, Any], notes: list[str]) -> JsonObject:
    """Return the disruption settings. There were no budgets, and v1's default of 10% would delay disruption."""
    seconds = spec.get("ttlSecondsAfterEmpty")
    budgets = [{"nodes": "100%"}]
    if _consolidates(spec) or seconds is not None:
        sentence = "it had no disruption budget, so all of its nodes may leave at once: a smaller budget"
        sentence += " slows that down"
        notes.append(Note(sentence, "spec.disruption.budgets"))
    if _consolidates(spec):
        return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": budgets}
    return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": _after(seconds), "budgets": budgets}


def _kubelet(raw_kubelet: Mapping[str, Any] | None, notes: list[str]) -> dict[str, str]:
    """Return the kubelet settings as an annotation, from which they move to the class."""
    if not raw_kubelet:
        return {}
    notes.append(
        Note("kubelet settings belong to the EC2NodeClass now", f"metadata.annotations[{labels.V1BETA1_KUBELET}]")
    )
    fields = {name: value for name, value in raw_kubelet.items() if name != "containerRuntime"}
    if len(fields) < len(raw_kubelet):
        notes.append(Note("containerRuntime is dropped: every node runs containerd", "spec.template.spec.nodeClassRef"))
    return {labels.V1BETA1_KUBELET: json.dumps(fields, sort_keys=True)} if fields else {}


def _is_removed(condition: Any) -> bool:
    return isinstance(condition, dict) and condition.get("type") in ("MachineEmpty", "MachineExpired")


def _condition(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return condition
    return {**condition, "type": str(condition.get("type", "")).removeprefix("Machine")}
