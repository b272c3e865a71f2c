"""The kubelet settings of an EC2NodeClass: those that planning needs. The node receives all others unchanged."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, PlainValidator, WithJsonSchema

from tenon.apis import expressions
from tenon.apis.base import (
    AMOUNT_SCHEMA,
    OPEN_KEY,
    QUANTITY_PATTERN,
    Amount,
    ApiModel,
    Rule,
    known_amount,
    kubernetes_name,
    quantity_text,
)
from tenon.apis.duration import GoDuration

RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
EVICTION_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_NUMBER = r"([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)"
THRESHOLD_PATTERN = rf"^([0-9]{{1,2}}(\.[0-9]+)?%|100(\.0+)?%|{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?)$"

_ANYTHING: dict[str, JsonValue] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

Threshold = Annotated[str, Field(max_length=64, pattern=THRESHOLD_PATTERN)]


def _names_within(attribute: str, names: tuple[str, ...], sentence: str) -> Rule:
    field = kubernetes_name(attribute)
    listed = ", ".join(f"'{name}'" for name in names)
    return Rule(
        f"!has(self.{field}) || self.{field}.all(name, name in [{listed}])",
        f"{field} {sentence}: {', '.join(names)}",
    )


def is_expression(value: object) -> bool:
    """Whether the value is an expression that must be evaluated for each instance type."""
    return isinstance(value, str) and re.fullmatch(QUANTITY_PATTERN, value) is None


def _looks_computed(text: str) -> bool:
    return len(text) <= expressions.MAX_LENGTH and re.fullmatch(expressions.FORM, text) is not None


def _pods(value: Any) -> int | str:
    if isinstance(value, str) and _looks_computed(value):
        return value
    if isinstance(value, str):
        raise ValueError(
            f"{value[:80]!r} is neither a whole number, which has no quotes, nor an expression over "
            f"{', '.join(expressions.VARIABLES)}"
        )
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("is not a whole number")
    if value < 0:
        raise ValueError("must be greater than or equal to 0")
    return value


def _reserved(text: str) -> str:
    return text if is_expression(text) and _looks_computed(text) else known_amount(text)


_COMPUTED = {**AMOUNT_SCHEMA, "maxLength": expressions.MAX_LENGTH}
Pods = Annotated[int | str, PlainValidator(_pods), WithJsonSchema({**_COMPUTED, "pattern": f"^({expressions.FORM})$"})]
"""A number of pods, or an expression that computes it."""
Reserved = Annotated[
    str,
    AfterValidator(_reserved),
    WithJsonSchema({**_COMPUTED, "pattern": f"{AMOUNT_SCHEMA['pattern']}|^({expressions.FORM})$"}),
]
"""An amount, or an expression that computes it."""


class SharedSettings(ApiModel):
    """The settings that planning must know and that have always been what they are."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _names_within("system_reserved", RESERVABLE, "takes only"),
        _names_within("kube_reserved", RESERVABLE, "takes only"),
        _names_within("eviction_hard", EVICTION_SIGNALS, "takes only the signals"),
        _names_within("eviction_soft", EVICTION_SIGNALS, "takes only the signals"),
        _names_within("eviction_soft_grace_period", EVICTION_SIGNALS, "takes only the signals"),
        Rule(
            "(has(self.evictionSoft) ? self.evictionSoft.size() : 0) == "
            "(has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.size() : 0) && "
            "(!has(self.evictionSoft) || self.evictionSoft.all(name, name in self.evictionSoftGracePeriod))",
            "evictionSoft and evictionSoftGracePeriod must name the same signals",
        ),
        Rule(
            "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || "
            "self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
            "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
        ),
    )

    cluster_dns: Annotated[list[str], Field(max_length=10)] = []
    """The addresses of the cluster's DNS."""
    pods_per_core: Annotated[int, Field(ge=0)] | None = None
    """The most pods for each vCPU of a node."""
    eviction_hard: Annotated[dict[str, Threshold], Field(max_length=10)] = {}
    """Thresholds at which pods are evicted at once."""
    eviction_soft: Annotated[dict[str, Threshold], Field(max_length=10)] = {}
    """Thresholds at which pods are evicted after a grace period."""
    eviction_soft_grace_period: Annotated[dict[str, GoDuration], Field(max_length=10)] = {}
    """The grace period of each soft threshold."""
    eviction_max_pod_grace_period: Annotated[int, Field(ge=0)] | None = None
    """The longest grace period of a pod evicted by a soft threshold, in seconds."""
    image_gc_high_threshold_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """The disk usage above which images are always collected."""
    image_gc_low_threshold_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """The disk usage below which images are never collected."""
    cpu_cfs_quota: bool | None = None
    """Whether CPU limits are enforced."""


class ManagedSettings(SharedSettings):
    """The settings that planning must know, as older versions have them: the same for nodes of every size."""

    max_pods: Annotated[int, Field(ge=0)] | None = None
    """The most pods of a node."""
    system_reserved: Annotated[dict[str, Amount], Field(max_length=10)] = {}
    """Resources kept for the system."""
    kube_reserved: Annotated[dict[str, Amount], Field(max_length=10)] = {}
    """Resources kept for Kubernetes itself."""


class KubeletConfiguration(SharedSettings):
    """Settings of the nodes' kubelet; settings not named here are passed on as they are (AL2023 only).

    The API server stores them unchecked, as with Karpenter, so that every stored object can be updated. A condition of
    the class says what is wrong with them.
    """

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True, OPEN_KEY: True}
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        *SharedSettings.rules,
        Rule(
            "!has(self.registerWithTaints)",
            "registerWithTaints is not allowed: use the taints of the NodePool",
        ),
    )

    max_pods: Pods | None = None
    """The most pods of a node: a number, or an expression for each instance type."""
    system_reserved: Annotated[dict[str, Reserved], Field(max_length=10)] = {}
    """Resources kept for the system: amounts, or expressions in millicores, MiB, GiB of disk, or process ids."""
    kube_reserved: Annotated[dict[str, Reserved], Field(max_length=10)] = {}
    """Resources kept for Kubernetes itself: amounts, or expressions in the same units."""
    register_with_taints: Annotated[list[Any], Field(json_schema_extra={"items": _ANYTHING})] | None = None
    """Not allowed: it would replace the taints that a node must have when it joins. Use the taints of the NodePool."""

    @property
    def passed_on(self) -> dict[str, object]:
        """The settings that the kubelet receives unchanged."""
        return dict(self.model_extra or {})


def with_amounts_as_texts(kubelet: Mapping[str, Any]) -> dict[str, Any]:
    """Return older kubelet settings as v1 has them: versions before v1 take the amounts of a map as numbers too."""
    return {
        field: {name: quantity_text(amount) for name, amount in value.items()} if isinstance(value, dict) else value
        for field, value in kubelet.items()
    }


def expressions_in(kubelet: Mapping[str, Any]) -> dict[str, str]:
    """Return the expressions in a kubelet map (camelCase), by their field path."""
    expressions: dict[str, Any] = {"maxPods": kubelet.get("maxPods")}
    for field in ("kubeReserved", "systemReserved"):
        expressions |= {f"{field}[{name}]": value for name, value in (kubelet.get(field) or {}).items()}
    return {place: value for place, value in expressions.items() if is_expression(value)}
