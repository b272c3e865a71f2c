"""The fields of a pod's spec that bear on where it may run, with what the API server would refuse in them."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tenon.apis.base import ApiModel
from tenon.resources import parse_quantity
from tenon.simulation.fields import Amounts, Text


class Needs(ApiModel):
    requests: Amounts = {}
    limits: Amounts = {}

    @model_validator(mode="after")
    def _ordered(self) -> Needs:
        for name, asked in self.requests.items():
            if name in self.limits and parse_quantity(asked) > parse_quantity(self.limits[name]):
                raise ValueError(f"requests of {name} ({asked}) are above its limit ({self.limits[name]})")
        return self


class Port(ApiModel):
    container_port: int = Field(default=0, ge=0, le=65535)
    host_port: int = Field(default=0, ge=0, le=65535)
    host_ip: str = ""
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class Container(ApiModel):
    name: str = ""
    resources: Needs = Needs()
    ports: list[Port] = []
    restart_policy: str = ""


class Expression(ApiModel):
    """An expression of a label selector."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []

    @model_validator(mode="after")
    def _values_fit(self) -> Expression:
        _values_suit(self.operator, self.values)
        return self


class NodeExpression(ApiModel):
    """An expression of node affinity."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []

    @model_validator(mode="after")
    def _values_fit(self) -> NodeExpression:
        _values_suit(self.operator, self.values)
        return self


def _values_suit(operator: str, values: Sequence[str]) -> None:
    if operator in ("Exists", "DoesNotExist"):
        if values:
            raise ValueError(f"operator {operator} takes no values")
    elif operator in ("Gt", "Lt"):
        digits = values[0].removeprefix("-") if len(values) == 1 else ""
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            raise ValueError(f"operator {operator} takes one whole number, in quotes")
    elif not values:
        raise ValueError(f"operator {operator} needs values")


class LabelSelector(ApiModel):
    match_labels: dict[str, str] = {}
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
    topology_key: Text
    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] = []
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


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

    @model_validator(mode="after")
    def _makes_sense(self) -> Toleration:
        if not self.key and self.operator != "Exists":
            raise ValueError("a toleration without key must have operator Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value")
        return self


class Taint(ApiModel):
    key: Text
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class Spread(ApiModel):
    max_skew: int = Field(ge=1, le=2**31 - 1)
    topology_key: Text
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = Field(default=None, ge=1, le=2**31 - 1)
    match_label_keys: list[str] = []
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"


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


class PodSpec(ApiModel):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: Amounts = {}
    resources: Needs = Needs()
    topology_spread_constraints: list[Spread] = []
    volumes: list[Volume] = []
    resource_claims: list[dict[str, Any]] = []
    scheduling_gates: list[dict[str, Any]] = []
    priority: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
    priority_class_name: str = ""
