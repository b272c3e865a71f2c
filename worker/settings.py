"""What an operator can set, read from the environment and from flags of the same name in kebab case.

Names and defaults are Karpenter's where Karpenter has the setting. Temporal's own client settings (TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE, TLS, API key) are read by Temporal's standard environment configuration, not here.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tenon.provisioning.policy import PlanPolicy
from tenon.scheduling.model import NODE_CHARGE

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: Any) -> timedelta:
    """A Go duration such as ``10s`` or ``1m30s``, or a number of seconds.

    Raises:
        ValueError: the text is no duration.
    """
    if isinstance(value, timedelta):
        return value
    text = str(value).strip()
    parts = [(text, "s")] if re.fullmatch(r"\d+(?:\.\d+)?", text) else _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) not in (text, f"{text}s"):
        raise ValueError(f"{text!r} is not a duration: write it like 10s, 1m30s or 2h")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any duration that can be waited for") from None


GoDuration = Annotated[timedelta, BeforeValidator(parse_duration)]


def _between(least: str, most: str) -> BeforeValidator:
    """A duration within these bounds, which are told as an operator writes them."""

    def parse(value: Any) -> timedelta:
        duration = parse_duration(value)
        if not parse_duration(least) <= duration <= parse_duration(most):
            raise ValueError(f"it is not between {least} and {most}")
        return duration

    return BeforeValidator(parse)


NEVER = "Never"
SHORTEST_WAIT = timedelta(seconds=10)


def parse_wait(value: Any) -> timedelta | None:
    """A duration after which something is given up; None for ``Never`` and ``0``.

    Raises:
        ValueError: the text is neither, or so short that nothing could succeed.
    """
    if value is None or str(value).strip().lower() == NEVER.lower():
        return None
    wait = parse_duration(value)
    if timedelta() < wait < SHORTEST_WAIT:
        raise ValueError(f"it is shorter than {SHORTEST_WAIT.seconds}s; 0 or {NEVER} means to wait for ever")
    return wait or None


Wait = Annotated[timedelta | None, BeforeValidator(parse_wait)]


def _only_true(value: bool) -> bool:
    if not value:
        raise ValueError("dynamic resource claims cannot be planned for yet, so pods with them are always left out")
    return value


class SettingsError(Exception):
    """Settings that cannot be used; one sentence each."""


class Settings(BaseSettings):
    """The effective settings of a worker."""

    model_config = SettingsConfigDict(case_sensitive=False, extra="ignore", env_ignore_empty=True)

    cluster_name: str = Field(min_length=1, max_length=100)
    cluster_endpoint: str = ""
    batch_max_duration: GoDuration = timedelta(seconds=10)
    batch_idle_duration: GoDuration = timedelta(seconds=1)
    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    ignore_dra_requests: Annotated[bool, AfterValidator(_only_true)] = True
    node_charge: float = Field(default=NODE_CHARGE, ge=0, le=1000, allow_inf_nan=False)
    max_workload_share_per_node: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    garbage_collection_interval: Annotated[timedelta, _between("30s", "24h")] = timedelta(minutes=10)
    initialization_timeout: Wait = timedelta(hours=1)
    watch_silence_limit: Annotated[timedelta, _between("1s", "10m")] = timedelta(seconds=75)
    vm_memory_overhead_percent: float = Field(default=0.075, ge=0, lt=1)
    reserved_enis: int = Field(default=0, ge=0)
    kube_client_qps: float = Field(default=200, gt=0)
    kube_client_burst: int = Field(default=300, gt=0)
    metrics_port: int = Field(default=8080, ge=0, le=65535)
    health_probe_port: int = Field(default=8081, ge=0, le=65535)
    disable_leader_election: bool = False
    leader_election_name: str = "karpenter-leader-election"
    leader_election_namespace: str = ""
    log_level: Literal["debug", "info", "warn", "error"] = "info"

    def plan_policy(self) -> PlanPolicy:
        """The settings that bear on plans."""
        return PlanPolicy(
            ignore_preferences=self.preference_policy == "Ignore",
            min_values_best_effort=self.min_values_policy == "BestEffort",
            node_charge=self.node_charge,
            most_pods_share=self.max_workload_share_per_node,
        )

    def as_environment(self) -> dict[str, str]:
        """The settings as a child process reads them back."""
        values = self.model_dump()
        return {name.upper(): _text(value) for name, value in values.items()}

    def namespace(self) -> str:
        """The namespace of the Lease: as set, else that of the pod, else ``tenon``."""
        if self.leader_election_namespace:
            return self.leader_election_namespace
        try:
            with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return "tenon"


def load(**flags: Any) -> Settings:
    """The settings of this process; flags win over the environment.

    Raises:
        SettingsError: with one sentence for each setting that is missing or malformed.
    """
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        sentences = []
        for fault in error.errors():
            name = str(fault["loc"][0]).upper()
            if fault["type"] == "missing":
                sentences.append(f"{name} is required: set it in the environment or with --{_flag(name)}.")
            else:
                sentences.append(
                    f"{name}={fault['input']!r} cannot be used: {fault['msg'].removeprefix('Value error, ')}."
                )
        raise SettingsError("\n".join(sentences)) from None


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():f}s"
    return NEVER if value is None else str(value)


def _flag(name: str) -> str:
    return name.lower().replace("_", "-")
