"""Validates NodePools, NodeClaims and EC2NodeClasses at run time. Each problem has a field path and a message.

The checks repeat those of the API server, for manifests that it has never seen, and add those that a CRD cannot
express.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from tenon import resources
from tenon.apis import expressions, labels
from tenon.apis.ami_families import KUBELET, WITH_UNLISTED_SETTINGS
from tenon.apis.approvals import read_approval_rules, read_approve_within
from tenon.apis.base import ApiModel, FaultKind
from tenon.apis.boolean_annotations import read_boolean
from tenon.apis.cel_rules import broken_rules
from tenon.apis.common import SelectorRequirement, Taint, is_label_name, is_label_value
from tenon.apis.consolidation_limits import read_least_saving, read_rest
from tenon.apis.cron import budget_problems
from tenon.apis.disruption_windows import read_windows
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.gpu_sharing import shares_gpus
from tenon.apis.hourly_cost import read_max_hourly_cost
from tenon.apis.kubelet import EVICTION_SIGNALS, THRESHOLD_PATTERN, KubeletConfiguration, expressions_in
from tenon.apis.kubelet_types import type_errors, unknown_setting
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.nodepool import NodePool, TemplateSpec
from tenon.apis.parse_errors import kind_of, sentence_of
from tenon.apis.purchase_goals import read_premium, read_spot_share
from tenon.apis.restricted import KNOWN_VALUES, restricted_reason
from tenon.apis.shortage_price import read_price_factor, read_shortage_policy
from tenon.apis.warm import read_warm

ModelT = TypeVar("ModelT", bound=ApiModel)

MAX_NAME = 63
"""The maximum length of a label's value."""


_READERS: Mapping[str, Callable[[str], object]] = {
    labels.LEAST_SAVING: read_least_saving,
    labels.REST_AFTER_MOVE: read_rest,
    labels.DISRUPTION_WINDOWS: read_windows,
    labels.APPROVE: read_approval_rules,
    labels.APPROVE_WITHIN: read_approve_within,
    labels.EXPIRE_WITHIN_BUDGETS: read_boolean,
    labels.REPLACE_ON_REBALANCE: read_boolean,
    labels.TAKES_PODS_EARLY: read_boolean,
    labels.SHORTAGE_PRICE_FACTOR: read_price_factor,
    labels.SHORTAGE_POLICY: read_shortage_policy,
    labels.WARM: read_warm,
    labels.MAX_HOURLY_COST: read_max_hourly_cost,
    labels.SPOT_SHARE: read_spot_share,
    labels.SPOT_PLACEMENT_SCORES: read_premium,
    labels.ZONE_BALANCE: read_premium,
    labels.NEWER_GENERATIONS: read_premium,
}
"""Tenon's own annotations of a NodePool."""


class FieldError(NamedTuple):
    """A validation problem and its field path."""

    path: str
    sentence: str
    kind: FaultKind = FaultKind.OTHER

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}" if self.path else self.sentence


def parse(model: type[ModelT], manifest: Mapping[str, Any]) -> tuple[ModelT | None, list[FieldError]]:
    """Parse the manifest into a model and return all of its problems. The model is None if parsing fails."""
    try:
        parsed = model.model_validate(dict(manifest))
    except ValidationError as error:
        faults = [FieldError(_path(fault["loc"]), sentence_of(fault), kind_of(fault)) for fault in error.errors()]
        return None, [*faults, *_unread_kubelet_settings(model, manifest)]
    return parsed, check(parsed)


def _unread_kubelet_settings(model: type[ApiModel], manifest: Mapping[str, Any]) -> Iterable[FieldError]:
    """Yield the faults of the kubelet settings that only nodes read, in a class that Tenon cannot read."""
    spec = manifest.get("spec")
    kubelet = spec.get("kubelet") if model is EC2NodeClass and isinstance(spec, Mapping) else None
    if isinstance(kubelet, Mapping):
        read = {field.alias for field in KubeletConfiguration.model_fields.values()}
        yield from _kubelet_types({name: value for name, value in kubelet.items() if name not in read})


def unreadable_fields(model: type[ApiModel], manifest: Mapping[str, Any], fields: Iterable[str]) -> list[FieldError]:
    """Return the problems that make these fields unreadable. ``.*`` after a path includes the fields inside it."""
    field_paths = [tuple(field.split(".")) for field in fields]
    try:
        model.model_validate(dict(manifest))
    except ValidationError as error:
        return [
            FieldError(_path(place), sentence_of(fault), kind_of(fault))
            for fault in error.errors()
            if any(_leads_to(place := fault["loc"], field) for field in field_paths)
        ]
    return []


def _leads_to(place: tuple[int | str, ...], field: tuple[str, ...]) -> bool:
    """Whether the error is at the field or at one of its parents; with ``*`` also anywhere inside the field."""
    if field[-1] == "*":
        field = field[:-1]
        return place[: len(field)] == field[: len(place)]
    return place == field[: len(place)]


def check(resource: ApiModel) -> list[FieldError]:
    """Return all problems of a resource of any kind."""
    if isinstance(resource, NodePool):
        return check_nodepool(resource)
    if isinstance(resource, NodeClaim):
        return check_nodeclaim(resource)
    if isinstance(resource, EC2NodeClass):
        return check_ec2nodeclass(resource)
    return [*_broken_rules(resource), *(FieldError(path, sentence) for path, sentence in resource.problems())]


def check_nodepool(pool: NodePool) -> list[FieldError]:
    """Return all problems of a NodePool."""
    spec = pool.spec.template.spec
    return [
        *_broken_rules(pool),
        *name_faults(pool.metadata.name),
        *_labels(pool.spec.template.metadata.labels, "spec.template.metadata.labels"),
        *_requirements(spec.requirements, "spec.template.spec.requirements", closed=(labels.NODEPOOL,)),
        *_taints(spec, "spec.template.spec"),
        *_limits(pool.spec.limits),
        *(FieldError(*problem) for problem in budget_problems(pool.spec.disruption.budgets, "spec.disruption.budgets")),
        *_annotations(pool.metadata.annotations, _READERS),
    ]


def name_faults(name: str) -> list[FieldError]:
    """Return what is wrong with the length of a NodePool's or class's name. The API server accepts 253 characters."""
    if len(name) <= MAX_NAME:
        return []
    most = f"its nodes carry it as a label, whose value has at most {MAX_NAME}"
    return [FieldError("metadata.name", f"has {len(name)} characters, and {most}: shorten it")]


def check_nodeclaim(claim: NodeClaim) -> list[FieldError]:
    """Return all problems of a NodeClaim."""
    return [
        *_broken_rules(claim),
        *_requirements(claim.spec.requirements, "spec.requirements"),
        *_taints(claim.spec, "spec"),
    ]


def check_ec2nodeclass(node_class: EC2NodeClass) -> list[FieldError]:
    """Return all problems of an EC2NodeClass that can be found without calling AWS."""
    problems = [
        *_broken_rules(node_class),
        *name_faults(node_class.metadata.name),
        *_annotations(node_class.metadata.annotations, {labels.NVIDIA_CONSUMABLE_CAPACITY: shares_gpus}),
    ]
    kubelet = node_class.spec.kubelet
    if kubelet is None:
        return problems
    settings = {name: value for name, value in kubelet.to_dict().items() if name != "maxPods" or isinstance(value, int)}
    problems += [*_kubelet_types(settings), *unreadable_expressions(kubelet)]
    return [*problems, *unsupported_kubelet_settings(node_class)]


def unsupported_kubelet_settings(node_class: EC2NodeClass) -> list[FieldError]:
    """Return the kubelet settings that nodes of the class's family would not get, or not as they are."""
    kubelet, family = node_class.spec.kubelet, node_class.spec.resolved_family
    if kubelet is None:
        return []
    support = KUBELET[family]
    problems = []
    if not support.unlisted:
        sentence = f"is passed on to {', '.join(WITH_UNLISTED_SETTINGS)} nodes only, not to {family}: remove it"
        problems += [FieldError(f"spec.kubelet.{name}", sentence) for name in kubelet.passed_on]
    if kubelet.pods_per_core is not None and not support.pods_per_core:
        problems.append(FieldError("spec.kubelet.podsPerCore", f"does not work with {family}: remove it"))
    if len(kubelet.cluster_dns) > 1 and not support.several_dns:
        sentence = f"has {len(kubelet.cluster_dns)} addresses, and {family} nodes take one: keep one"
        problems.append(FieldError("spec.kubelet.clusterDNS", sentence))
    return problems


def _kubelet_types(settings: Mapping[str, Any]) -> Iterable[FieldError]:
    """Yield what the kubelet could not read of its settings, by their names in a manifest."""
    error = type_errors(settings)
    for fault in error.errors() if error is not None else ():
        path, kind = _path(("spec", "kubelet", *fault["loc"])), kind_of(fault)
        if kind is FaultKind.UNKNOWN:
            yield FieldError(path, unknown_setting(fault["loc"]), FaultKind.UNKNOWN_SETTING)
        else:
            yield FieldError(path, sentence_of(fault), kind)
    reclaim = settings.get("evictionMinimumReclaim")
    for signal, amount in reclaim.items() if isinstance(reclaim, Mapping) else ():
        path = f"spec.kubelet.evictionMinimumReclaim[{signal}]"
        if signal not in EVICTION_SIGNALS:
            yield FieldError(path, f"is not a signal: use one of {', '.join(EVICTION_SIGNALS)}")
        elif isinstance(amount, str) and re.match(THRESHOLD_PATTERN, amount) is None:
            yield FieldError(path, f"{amount[:80]!r} is neither a percentage from 0% to 100% nor an amount")


def unreadable_expressions(kubelet: KubeletConfiguration) -> list[FieldError]:
    """Return the kubelet expressions that are invalid for every instance type."""
    problems = []
    for place, text in expressions_in(kubelet.to_dict()).items():
        try:
            expressions.check(text)
        except expressions.ExpressionError as error:
            problems.append(FieldError(f"spec.kubelet.{place}", f"{text[:80]!r} is not a valid expression: {error}"))
    return problems


def _broken_rules(model: ApiModel) -> list[FieldError]:
    return [FieldError(path, rule.sentence, rule.kind) for path, rule in broken_rules(model)]


def _labels(labels_: Mapping[str, str], path: str) -> Iterable[FieldError]:
    for key, value in labels_.items():
        if key == labels.NODEPOOL:
            yield FieldError(f"{path}[{key}]", "is set from the NodePool's name and may not be given")
            continue
        yield from _key(key, f"{path}[{key}]")
        allowed_values = KNOWN_VALUES.get(key)
        if allowed_values is not None and value not in allowed_values:
            yield FieldError(f"{path}[{key}]", _not_a_value(value, allowed_values), FaultKind.VALUE)


def _key(key: str, path: str) -> Iterable[FieldError]:
    reason = restricted_reason(labels.ALIASES.get(key, key))
    if not is_label_name(key):
        yield FieldError(path, f"{key[:80]!r} is not a label name: write name or domain/name")
    elif reason is not None:
        yield FieldError(path, reason)


def _requirements(terms: Sequence[SelectorRequirement], path: str, closed: Sequence[str] = ()) -> Iterable[FieldError]:
    for index, term in enumerate(terms):
        term_path = f"{path}[{index}]"
        if term.key in closed:
            yield FieldError(
                f"{term_path}.key", f"label {term.key} is set from the NodePool's name and may not be required"
            )
        yield from _key(term.key, f"{term_path}.key")
        for value in term.values:
            if not is_label_value(value):
                yield FieldError(f"{term_path}.values", f"{value[:80]!r} is not a label value", FaultKind.VALUE)
        allowed_values = KNOWN_VALUES.get(term.key)
        if allowed_values is not None and term.operator == "In" and term.values:
            valid = set(term.values).intersection(allowed_values)
            if not valid:
                for value in term.values:
                    yield FieldError(f"{term_path}.values", _not_a_value(value, allowed_values), FaultKind.VALUE)
            elif len(valid) < (term.min_values or 0):
                allowed = _list(allowed_values)
                reason = f"minValues is {term.min_values}, and too few values are known: this label has {allowed}"
                yield FieldError(f"{term_path}.values", reason)


def unknown_values(terms: Sequence[SelectorRequirement]) -> list[FieldError]:
    """Return values that no node can have, although their requirement can be met: worth a log line, not an error."""
    problems = []
    for index, term in enumerate(terms):
        allowed_values = KNOWN_VALUES.get(term.key)
        if allowed_values is not None and term.operator == "In":
            strange = sorted(set(term.values).difference(allowed_values))
            if strange and not set(term.values).isdisjoint(allowed_values):
                problems.append(
                    FieldError(f"requirements[{index}].values", f"unknown values {_list(strange)} are ignored")
                )
    return problems


def _taints(spec: TemplateSpec | Any, path: str) -> Iterable[FieldError]:
    taints: list[Taint] = [*spec.taints, *spec.startup_taints]
    for (key, effect), count in Counter((taint.key, taint.effect) for taint in taints).items():
        if count > 1:
            yield FieldError(path, f"taints and startupTaints name {key}:{effect} {count} times: keep one")


def _limits(limits: Mapping[str, str]) -> Iterable[FieldError]:
    for name, quantity in limits.items():
        if resources.parse_quantity(quantity) < 0:
            yield FieldError(f"spec.limits[{name}]", f"{quantity} is below zero: a limit must not be negative")


def _annotations(
    annotations: Mapping[str, str], readers: Mapping[str, Callable[[str], object]]
) -> Iterable[FieldError]:
    for key, read in readers.items():
        text = annotations.get(key)
        if text is None:
            continue
        try:
            read(text)
        except ValueError as error:
            yield FieldError(f"metadata.annotations[{key}]", str(error))


def _path(location: Iterable[int | str]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _not_a_value(value: str, allowed_values: Iterable[str]) -> str:
    return f"{value!r} is not a value of this label: use one of {_list(allowed_values)}"


def _list(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))
