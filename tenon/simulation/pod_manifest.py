"""Models of the pod fields that affect scheduling, with the API server's validation."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tenon.apis.base import ApiModel
from tenon.apis.common import is_label_name, is_label_value
from tenon.resources import parse_quantity
from tenon.simulation.fields import Amounts, Text

_MIN_BOUND, _MAX_BOUND = -(2**63), 2**63 - 1
_MAX_DIGITS = 19


def _label_key(key: str) -> str:
    if not is_label_name(key):
        raise ValueError(f"{key[:80]!r} is not a label name: write name or domain/name")
    return key


def _labels(values: dict[str, str]) -> dict[str, str]:
    for key, value in values.items():
        _label_key(key)
        if not is_label_value(value):
            raise ValueError(f"{value[:80]!r} of {key} is not a label value")
    return values


LabelKey = Annotated[str, AfterValidator(_label_key)]
Labels = Annotated[dict[str, str], AfterValidator(_labels)]


def _is_device(name: str) -> bool:
    """True for extended resources, which cannot be overcommitted."""
    return "/" in name and "kubernetes.io/" not in name


class Needs(ApiModel):
    requests: Amounts = {}
    limits: Amounts = {}

    @model_validator(mode="after")
    def _whole_devices(self) -> Self:
        for amounts in (self.requests, self.limits):
            for name, amount in amounts.items():
                if _is_device(name) and parse_quantity(amount) % 1:
                    raise ValueError(f"{name}: {amount} is not a whole number: devices cannot be shared in parts")
        for name, amount in self.requests.items():
            if not _is_device(name) and not name.startswith("hugepages-"):
                continue
            if name not in self.limits:
                raise ValueError(f"{name} is requested without a limit, which must be equal: write it in limits too")
            if parse_quantity(amount) < parse_quantity(self.limits[name]):
                raise ValueError(f"requests of {name} ({amount}) must equal its limit ({self.limits[name]})")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, requested in self.requests.items():
            if name in self.limits and parse_quantity(requested) > parse_quantity(self.limits[name]):
                raise ValueError(f"requests of {name} ({requested}) are above its limit ({self.limits[name]})")
        return self


class Port(ApiModel):
    container_port: int = Field(default=0, ge=0, le=65535)
    host_port: int = Field(default=0, ge=0, le=65535)
    host_ip: str = ""
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class Container(ApiModel):
    name: str = ""
    resources: Needs = Field(default_factory=Needs)
    ports: list[Port] = []
    restart_policy: str = ""


class NodeExpression(ApiModel):
    """A node affinity expression."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        _values_suit(self.operator, self.values)
        return self


class Expression(NodeExpression):
    """A label selector expression."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]


def _values_suit(operator: str, values: Sequence[str]) -> None:
    if operator in ("Exists", "DoesNotExist"):
        if values:
            raise ValueError(f"operator {operator} takes no values")
    elif operator in ("Gt", "Lt"):
        digits = values[0].removeprefix("-") if len(values) == 1 else ""
        whole = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
        if not (whole and _MIN_BOUND <= int(values[0]) <= _MAX_BOUND):
            raise ValueError(f"operator {operator} takes one whole number, in quotes")
    elif not values:
        raise ValueError(f"operator {operator} needs values")


class LabelSelector(ApiModel):
    match_labels: Labels = {}
    match_expressions: list[Expression] = []


class NodeTerm(ApiModel):
    match_expressions: list[NodeExpression] = []
    match_fields: list[NodeExpression] = []


class NodeSelector(ApiModel):
    node_selector_terms: Annotated[list[NodeTerm], Field(min_length=1)]


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredNode(ApiModel):
    weight: Weight
    preference: NodeTerm


class NodeAffinity(ApiModel):
    required: NodeSelector | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredNode] = Field(default=[], alias="preferredDuringSchedulingIgnoredDuringExecution")


class PodTerm(ApiModel):
    topology_key: LabelKey
    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] = []
    match_label_keys: list[LabelKey] = []
    mismatch_label_keys: list[LabelKey] = []

    @model_validator(mode="after")
    def _keys_join_a_selector(self) -> Self:
        _joins_a_selector("matchLabelKeys", self.match_label_keys, self.label_selector)
        _joins_a_selector("mismatchLabelKeys", self.mismatch_label_keys, self.label_selector)
        return self


def _joins_a_selector(field: str, keys: Sequence[str], selector: LabelSelector | None) -> None:
    if keys and selector is None:
        raise ValueError(f"{field} needs a labelSelector, which it narrows")


class PreferredPod(ApiModel):
    weight: Weight
    pod_affinity_term: PodTerm


class PodAffinity(ApiModel):
    required: list[PodTerm] = Field(default=[], alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredPod] = Field(default=[], alias="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(ApiModel):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiModel):
    key: str = ""
    operator: Literal["", "Equal", "Exists", "Lt", "Gt"] = ""
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds needs effect NoExecute: no other effect evicts pods")
        if not self.key and self.operator != "Exists":
            raise ValueError("a toleration without key must have operator Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value")
        return self


class Spread(ApiModel):
    max_skew: int = Field(ge=1, le=2**31 - 1)
    topology_key: LabelKey
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: int | None = Field(default=None, ge=1, le=2**31 - 1)
    match_label_keys: list[LabelKey] = []
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.min_domains is not None and self.when_unsatisfiable != "DoNotSchedule":
            raise ValueError("minDomains requires whenUnsatisfiable DoNotSchedule")
        _joins_a_selector("matchLabelKeys", self.match_label_keys, self.label_selector)
        return self


def _each_once(spreads: list[Spread]) -> list[Spread]:
    seen_keys: set[tuple[str, str]] = set()
    for spread in spreads:
        kind = (spread.topology_key, spread.when_unsatisfiable)
        if kind in seen_keys:
            raise ValueError(f"there are two constraints over {kind[0]} with {kind[1]}: keep one")
        seen_keys.add(kind)
    return spreads


class ClaimName(ApiModel):
    claim_name: Text


class ClaimTemplateSpec(ApiModel):
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimTemplate(ApiModel):
    spec: ClaimTemplateSpec


class Ephemeral(ApiModel):
    volume_claim_template: ClaimTemplate


class Volume(ApiModel):
    name: str = ""
    persistent_volume_claim: ClaimName | None = None
    ephemeral: Ephemeral | None = None


def _some(containers: list[Container]) -> list[Container]:
    if not containers:
        raise ValueError("is empty: a pod has at least one container")
    return containers


class RuntimeOverhead(ApiModel):
    pod_fixed: Amounts = {}


class RuntimeScheduling(ApiModel):
    node_selector: Labels = {}
    tolerations: list[Toleration] = []


class RuntimeClass(ApiModel):
    """What a RuntimeClass adds to its pods."""

    overhead: RuntimeOverhead = Field(default_factory=RuntimeOverhead)
    scheduling: RuntimeScheduling = Field(default_factory=RuntimeScheduling)


class PodSpec(ApiModel):
    node_name: str = ""
    node_selector: Labels = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    containers: Annotated[list[Container], AfterValidator(_some)]
    init_containers: list[Container] = []
    overhead: Amounts = {}
    runtime_class_name: str = ""
    resources: Needs = Field(default_factory=Needs)
    topology_spread_constraints: Annotated[list[Spread], AfterValidator(_each_once)] = []
    volumes: list[Volume] = []
    resource_claims: list[dict[str, Any]] = []
    scheduling_gates: list[dict[str, Any]] = []
    priority: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
    priority_class_name: str = ""
