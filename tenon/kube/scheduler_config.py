"""The part of kube-scheduler's configuration that plans follow: default topology spread constraints.

Two documents can hold it: Karpenter's ``podTopologySpread.defaultConstraints``, and kube-scheduler's own configuration
file, a KubeSchedulerConfiguration. Tenon rejects what kube-scheduler would reject in it, because kube-scheduler then
uses some other configuration.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from tenon.apis import labels
from tenon.apis.base import ApiModel, FaultKind
from tenon.apis.common import KEY_PATTERN
from tenon.apis.validation import FieldError, parse
from tenon.kube.pod_rules import SpreadRule

KIND = "KubeSchedulerConfiguration"
GROUP = "kubescheduler.config.k8s.io"
PLUGIN = "PodTopologySpread"
DEFAULT_SCHEDULER = "default-scheduler"
SYSTEM = (
    SpreadRule(labels.HOSTNAME, 3, None, hard=False),
    SpreadRule(labels.ZONE, 5, None, hard=False),
)
"""The constraints that ``defaultingType: System`` stands for."""
_SELECTED = "must be left out: pods are counted by the selectors of their Services and of the workload that owns them"

ModelT = TypeVar("ModelT", bound=ApiModel)


def _key(key: str) -> str:
    if re.fullmatch(KEY_PATTERN, key) is None:
        raise ValueError(f"{key[:80]!r} is not a label name: write name or domain/name")
    return key


def _absent(value: Any) -> Any:
    if value is not None and value != []:
        raise ValueError(_SELECTED)
    return value


class Constraint(ApiModel):
    """A default constraint, which has no pod selector of its own."""

    model_config = ConfigDict(extra="forbid")

    max_skew: int = Field(ge=1, le=2**31 - 1)
    topology_key: Annotated[str, AfterValidator(_key)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: int | None = Field(default=None, ge=1, le=2**31 - 1)
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    label_selector: Annotated[Any, AfterValidator(_absent)] = None
    match_label_keys: Annotated[Any, AfterValidator(_absent)] = None

    def rule(self) -> SpreadRule:
        """Return the constraint in the form that pods use."""
        hard = self.when_unsatisfiable == "DoNotSchedule"
        return SpreadRule(
            key=self.topology_key,
            max_skew=self.max_skew,
            selector=None,
            hard=hard,
            min_domains=(self.min_domains or 1) if hard else 1,
            honor_affinity=self.node_affinity_policy == "Honor",
            honor_taints=self.node_taints_policy == "Honor",
        )


class Defaults(ApiModel):
    """``podTopologySpread`` of Karpenter's document, and the arguments of kube-scheduler's plugin."""

    model_config = ConfigDict(extra="forbid")

    default_constraints: list[Constraint] = []
    defaulting_type: Literal["", "List", "System"] = ""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        kinds = [(constraint.topology_key, constraint.when_unsatisfiable) for constraint in self.default_constraints]
        for key, action in kinds:
            if kinds.count((key, action)) > 1:
                raise ValueError(f"there are two default constraints over {key} with {action}: keep one")
        if kinds and self.defaulting_type == "System":
            raise ValueError("defaultingType System goes without defaultConstraints: write List, or leave them out")
        return self

    def constraints(self) -> tuple[SpreadRule, ...]:
        """Return the constraints for pods that have none."""
        return (
            SYSTEM
            if self.defaulting_type == "System"
            else tuple(constraint.rule() for constraint in self.default_constraints)
        )


class _KarpenterDocument(ApiModel):
    model_config = ConfigDict(extra="forbid")

    pod_topology_spread: Defaults = Field(default_factory=Defaults)


class _Plugin(ApiModel):
    name: str = ""
    args: dict[str, Any] = {}


class _Profile(ApiModel):
    scheduler_name: str = DEFAULT_SCHEDULER
    plugin_config: list[_Plugin] = []


class _KubeDocument(ApiModel):
    profiles: list[_Profile] = []


@dataclass(frozen=True, slots=True)
class DefaultSpread:
    """The constraints for pods that have none, by scheduler name."""

    by_scheduler: Mapping[str, tuple[SpreadRule, ...]] = field(default_factory=dict)
    others: tuple[SpreadRule, ...] = ()
    """The constraints for pods of any other scheduler."""

    def __bool__(self) -> bool:
        """Whether any pod has default constraints."""
        return bool(self.others) or any(self.by_scheduler.values())

    def of(self, scheduler: str) -> tuple[SpreadRule, ...]:
        """Return the constraints for a pod of this scheduler. An empty name means the default scheduler."""
        return self.by_scheduler.get(scheduler or DEFAULT_SCHEDULER, self.others)

    def hard(self, scheduler: str) -> bool:
        """Whether these constraints may leave a pod of this scheduler pending."""
        return any(rule.hard for rule in self.of(scheduler))


NOTHING = DefaultSpread()
"""No default constraints."""


def scheduler_config(document: Any) -> DefaultSpread:
    """Parse a configuration document.

    Raises:
        ValueError: the document is invalid. The message is a sentence that lists all errors.
    """
    if not isinstance(document, Mapping):
        raise ValueError("the document must be a mapping: write podTopologySpread or a KubeSchedulerConfiguration")
    if document.get("kind") != KIND:
        return DefaultSpread(others=_read(_KarpenterDocument, document).pod_topology_spread.constraints())
    if str(document.get("apiVersion")).partition("/")[0] != GROUP:
        raise ValueError(f"apiVersion: must be a version of {GROUP} for a {KIND}")
    profiles = _read(_KubeDocument, document).profiles
    return DefaultSpread({profile.scheduler_name: _rules(profile, n) for n, profile in enumerate(profiles)})


def _rules(profile: _Profile, number: int) -> tuple[SpreadRule, ...]:
    for place, plugin in enumerate(profile.plugin_config):
        if plugin.name == PLUGIN:
            path = f"profiles[{number}].pluginConfig[{place}].args"
            arguments = {name: value for name, value in plugin.args.items() if name not in ("kind", "apiVersion")}
            defaults = _read(Defaults, arguments, path)
            if defaults.default_constraints and defaults.defaulting_type != "List":
                raise ValueError(f"{path}.defaultingType: must be List where defaultConstraints are given")
            return defaults.constraints()
    return ()


def _read(model: type[ModelT], body: Mapping[str, Any], path: str = "") -> ModelT:
    parsed, problems = parse(model, body)
    if parsed is None or problems:
        raise ValueError("; ".join(_sentence_of(path, problem) for problem in problems))
    return parsed


def _sentence_of(path: str, problem: FieldError) -> str:
    sentence = "is unknown" if problem.kind is FaultKind.UNKNOWN else problem.sentence
    return str(FieldError(".".join(filter(None, (path, problem.path))), sentence))
